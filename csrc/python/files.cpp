// JPEG files into batches: all that a loader's thread does with a sample, in one call that holds
// the interpreter's lock only to read its arguments.
//
// What is unusual returns None: no JPEG, a damaged one, one that is too large. The caller's other
// path then handles it, or says what is wrong.
#include <pybind11/stl.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/chain/stored.h"
#include "python/bindings.h"
#include "python/passes.h"

namespace visops {
namespace {

struct Content {
  const uint8_t* data;
  size_t size;
};

// Reads a file whole. False: errno says why.
bool read_file(const char* path, Buffer& buffer, Content* content) {
  std::FILE* const file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  std::setvbuf(file, nullptr, _IONBF, 0);
  bool good = std::fseek(file, 0, SEEK_END) == 0;
  const long size = good ? std::ftell(file) : -1;
  good = size >= 0 && std::fseek(file, 0, SEEK_SET) == 0;
  if (good) {
    uint8_t* const data = buffer.of_size(static_cast<size_t>(size) + 1);
    const size_t count = std::fread(data, 1, static_cast<size_t>(size), file);
    good = std::ferror(file) == 0;
    *content = {data, count};
  }
  const int error = errno;
  std::fclose(file);
  errno = error;
  return good;
}

// The functions of libvisops_jpeg, which ops/jpeg/library.py has loaded: csrc/jpeg/library.cpp.
struct JpegFunctions {
  using ReadHeader = int (*)(const uint8_t*, int64_t, int64_t*, char*, int64_t);
  using Decode = int (*)(const uint8_t*, int64_t, const int64_t*, uint8_t*, char*, int64_t);

  ReadHeader read_header;
  Decode decode;
};

// How files are read: the options of DecodeJpeg, and what the pass reads around its canvas.
struct FileOptions {
  int64_t channels, max_pixels;
  bool exif, reduces, exact;
  Reach reach;
};

struct Times {
  double reading = 0.0, decoding = 0.0, transforming = 0.0;  // in seconds
};

class Clock {
 public:
  // Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Where a sample's image goes: [C, height, width] of a batch, if it has these sides.
struct Slot {
  StridedData data;
  int64_t height, width;
};

enum class Outcome { kStored, kOtherSize, kUnusual, kNotRead };

class FilePass {
 public:
  FilePass(std::vector<Stage> stages, uint64_t read_header, uint64_t decode,
           const FileOptions& options)
      : passes_(std::move(stages)),
        jpeg_{reinterpret_cast<JpegFunctions::ReadHeader>(read_header),
              reinterpret_cast<JpegFunctions::Decode>(decode)},
        options_(options) {
    if (passes_.stages().front().by_values || passes_.stages().back().by_values) {
      throw std::invalid_argument("the first pass and the last must make an image");
    }
  }

  // Stores the image of a file, given by its path as bytes or by its content, and returns (stored,
  // height, width, plans, times): the size that it comes out with, the plan of each pass for whole
  // images, and the seconds of reading, decoding and transforming. It is not stored if its slot,
  // (address, strides), has another size; 0: there is none. None: see above.
  py::object load(py::handle source, bool is_path, py::handle seed, py::handle epoch,
                  py::handle index, py::handle data, int64_t height, int64_t width) const {
    const SampleKey key = {low_word(seed), low_word(epoch), low_word(index)};
    const Slot slot = {height > 0 ? read_strided_data(data, 3) : StridedData{}, height, width};
    const View view(source);
    std::vector<ChainPlan> plans;
    Times times;
    int error = 0;
    Outcome outcome;
    {
      const py::gil_scoped_release release;
      errno = 0;
      outcome = run(view.content(), is_path, key, slot, plans, times);
      error = errno;
    }
    if (outcome == Outcome::kUnusual) return py::none();
    if (outcome == Outcome::kNotRead) {
      errno = error == 0 ? EIO : error;
      PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, source.ptr());
      throw py::error_already_set();
    }
    const Canvas canvas = plans.back().samples[0].canvas;
    py::list whole;
    for (ChainPlan& plan : plans) whole.append(PlanObject{std::move(plan), {}});
    return py::make_tuple(outcome == Outcome::kStored, static_cast<int64_t>(canvas.height),
                          static_cast<int64_t>(canvas.width), whole,
                          py::make_tuple(times.reading, times.decoding, times.transforming));
  }

 private:
  // The bytes of a Python object, which stays unchanged meanwhile.
  class View {
   public:
    explicit View(py::handle object) {
      if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) {
        throw py::error_already_set();
      }
    }
    ~View() { PyBuffer_Release(&buffer_); }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    Content content() const {
      return {static_cast<const uint8_t*>(buffer_.buf), static_cast<size_t>(buffer_.len)};
    }

   private:
    Py_buffer buffer_;
  };

  Outcome run(Content source, bool is_path, const SampleKey& key, const Slot& slot,
              std::vector<ChainPlan>& plans, Times& times) const {
    thread_local Buffer file, pixels;
    Clock clock;
    if (is_path) {
      const std::string path(reinterpret_cast<const char*>(source.data), source.size);
      if (!read_file(path.c_str(), file, &source)) return Outcome::kNotRead;
      times.reading = clock.lap();
    }
    char message[512];
    int64_t header[4];  // height, width, components, orientation
    const auto length = static_cast<int64_t>(source.size);
    if (length < 2 || source.data[0] != 0xFF || source.data[1] != 0xD8) return Outcome::kUnusual;
    if (jpeg_.read_header(source.data, length, header, message, sizeof(message)) != 0) {
      return Outcome::kUnusual;
    }
    const int64_t components = header[2], orientation = options_.exif ? header[3] : 1;
    const bool known = components == 1 || components == 3 || components == 4;
    if (!known || header[0] * header[1] > options_.max_pixels) return Outcome::kUnusual;
    if (swaps_sides(orientation)) std::swap(header[0], header[1]);
    const int64_t channels = options_.channels;
    plans = passes_.draw(key, header[0], header[1], channels, options_.exact);
    const Canvas& canvas = plans.back().samples[0].canvas;
    if (static_cast<int64_t>(canvas.height) != slot.height ||
        static_cast<int64_t>(canvas.width) != slot.width) {
      return Outcome::kOtherSize;
    }
    const ChainPlan& first = plans.front();
    const int64_t reduction = options_.reduces ? reductions(first)[0] : 1;
    const StoredPart part = stored_part(header[0], header[1], orientation,
                                        windows_read(first, options_.reach)[0], reduction);
    uint8_t* const decoded =
        pixels.of_size(static_cast<size_t>(part.height * part.width * channels));
    const int64_t request[7] = {reduction,  part.top, part.left,  part.height,
                                part.width, channels, orientation};
    if (jpeg_.decode(source.data, length, request, decoded, message, sizeof(message)) != 0) {
      return Outcome::kUnusual;
    }
    times.decoding = clock.lap();
    const bool swaps = swaps_sides(orientation);
    const int64_t rows = swaps ? part.width : part.height;
    const int64_t columns = swaps ? part.height : part.width;
    ChainPlan own = first;
    move_to_parts({{part.position_top, part.position_left, reduction, rows, columns}}, own);
    const AugmentImage image = {decoded, rows, columns, 1, columns * channels, channels};
    std::vector<const ChainPlan*> moved = {&own};
    for (size_t i = 1; i < plans.size(); ++i) moved.push_back(&plans[i]);
    passes_.run(moved, image, DType::kUInt8, slot.data, Threads::kCaller);
    times.transforming = clock.lap();
    return Outcome::kStored;
  }

  Passes passes_;
  JpegFunctions jpeg_;
  FileOptions options_;
};

py::tuple cover(int64_t height, int64_t width, int64_t orientation,
                const std::array<int64_t, 4>& window, int64_t reduction) {
  const PixelWindow own = {window[0], window[1], window[2], window[3]};
  const StoredPart part = stored_part(height, width, orientation, own, reduction);
  return py::make_tuple(part.top, part.left, part.height, part.width, part.position_top,
                        part.position_left);
}

}  // namespace

void bind_files(py::module_& m) {
  // Height and width of the upright image, orientation, (top, left, height, width), reduction.
  // Returns the fields of StoredPart.
  m.def("stored_part", &cover);
  py::class_<FilePass>(m, "FilePass")
      // Passes as read_stages() takes them.
      .def(py::init([](const py::list& passes, uint64_t read_header, uint64_t decode,
                       int64_t channels, int64_t max_pixels, bool exif, bool reduces, bool exact,
                       double around, double beyond, bool anywhere) {
        const FileOptions options = {channels, max_pixels, exif,
                                     reduces,  exact,      {around, beyond, anywhere}};
        return FilePass(read_stages(passes), read_header, decode, options);
      }))
      .def("load", &FilePass::load);
}

}  // namespace visops
