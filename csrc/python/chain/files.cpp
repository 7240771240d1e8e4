// JPEG files into batches: all that a loader's thread does with a sample, in one call that holds
// the interpreter's lock only to read its arguments.
//
// What is unusual returns None: no JPEG, a damaged one, one that is too large. The caller's other
// path then handles it, or says what is wrong.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/chain/windows.h"
#include "core/dispatch/shared_library.h"
#include "python/bindings.h"
#include "python/chain/pipeline.h"

namespace visops {
namespace {

struct Content {
  const uint8_t* data;
  size_t size;
};

// Memory for a file's content, kept for the next file. Between opening and decoding one, Python may
// run, and load another file in this thread: that gets memory of its own.
class ContentBuffer {
 public:
  ContentBuffer() : is_nested_(in_use()) { in_use() = true; }
  ~ContentBuffer() { in_use() = is_nested_; }
  ContentBuffer(const ContentBuffer&) = delete;
  ContentBuffer& operator=(const ContentBuffer&) = delete;

  uint8_t* of_size(size_t size) {
    thread_local Buffer kept;
    return (is_nested_ ? own_ : kept).of_size(size);
  }

 private:
  static bool& in_use() {
    thread_local bool used = false;
    return used;
  }

  bool is_nested_;
  Buffer own_;
};

// Reads a file whole. False: errno says why.
bool read_file(const char* path, ContentBuffer& buffer, Content* content) {
  std::FILE* const file = open_to_read(path);
  if (file == nullptr) return false;
  std::setvbuf(file, nullptr, _IONBF, 0);
  bool good = std::fseek(file, 0, SEEK_END) == 0;
  const long size = good ? std::ftell(file) : -1;
  good = size >= 0 && std::fseek(file, 0, SEEK_SET) == 0;
  if (good && size == std::numeric_limits<long>::max()) {  // a folder
    good = std::fgetc(file) != EOF;
  }
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

// The functions of libvisops_jpeg, which ops/jpeg/file.py has loaded: csrc/jpeg/library.cpp.
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

// Where a view's image goes: [C, height, width].
struct Slot {
  StridedData data;
  int64_t height, width;
};

enum class Outcome { kGood, kUnusual, kNotRead };

// A file whose header is read.
struct Opened {
  Content content;
  int64_t height, width, orientation;  // of the upright image
};

// What the first pass reads of a file: stored pixels that are decoded, and the upright image's.
struct Request {
  StoredPart part;
  int64_t reduction, rows, columns;
};

class FilePass {
 public:
  FilePass(const py::list& passes, uint64_t read_header, uint64_t decode,
           const FileOptions& options)
      : passes_(passes),
        jpeg_{reinterpret_cast<JpegFunctions::ReadHeader>(read_header),
              reinterpret_cast<JpegFunctions::Decode>(decode)},
        options_(options) {
    if (passes_.stages().front().by_values) {
      throw std::invalid_argument("the first pass must make an image");
    }
  }

  // What a call makes of a file: the plans of each view's passes for whole images, and the file's
  // upright size.
  struct Made {
    std::vector<std::vector<ChainPlan>> plans;
    Times times;
    int64_t height, width;
  };
  // Memory for the image of a view, asked for with the interpreter's lock.
  using GetMemory = std::function<StridedData(size_t view, int64_t height, int64_t width)>;

  // Stores the images that several chains make of a file, given by its path as bytes or by its
  // content. It is opened once, and decoded once: the union of the windows that the views read, at
  // the least reduction that any of them reads. Their options of DecodeJpeg are the same but for
  // `reduced`. An image goes to its slot, or to memory that is asked for if the slot has another
  // size. `drawn`, if it is not null, gets the parameters of the first view. False: see above.
  static bool make(const std::vector<const FilePass*>& views, py::handle source, bool is_path,
                   const std::vector<SampleKey>& keys, std::vector<Slot> slots,
                   const GetMemory& get_memory, Made* made, std::vector<Drawn>* drawn) {
    const View view(source);
    ContentBuffer buffer;
    Opened file = {};
    std::vector<size_t> missing;
    const Outcome outcome = unlocked(view, [&](Content given) {
      const Outcome opened = views[0]->open(given, is_path, buffer, &file, &made->times);
      if (opened != Outcome::kGood) return opened;
      for (size_t i = 0; i < views.size(); ++i) {
        made->plans.push_back(views[i]->draw(keys[i], file, i == 0 ? drawn : nullptr));
        const Canvas& canvas = made->plans[i].back().samples[0].canvas;
        const auto height = static_cast<int64_t>(canvas.height);
        const auto width = static_cast<int64_t>(canvas.width);
        if (height < 1 || width < 1) return Outcome::kUnusual;
        if (slots[i].height != height || slots[i].width != width) {
          slots[i] = {{}, height, width};
          missing.push_back(i);
        }
      }
      return missing.empty() ? store(views, made->plans, file, slots, &made->times) : opened;
    });
    made->height = file.height;
    made->width = file.width;
    if (outcome != Outcome::kGood || missing.empty()) return outcome == Outcome::kGood;
    for (size_t i : missing) slots[i].data = get_memory(i, slots[i].height, slots[i].width);
    const py::gil_scoped_release release;
    return store(views, made->plans, file, slots, &made->times) == Outcome::kGood;
  }

  // make(), into the images of a list, tensors [C, H, W] or None. One that doesn't fit is asked
  // for: memory(view, (C, H, W), dtype) returns a tensor. Returns (plans of each view, times).
  static py::object load(const std::vector<const FilePass*>& views, py::handle source, bool is_path,
                         const py::list& seeds, py::handle epoch, py::handle index,
                         const py::list& images, const py::object& memory) {
    std::vector<SampleKey> keys;
    std::vector<Slot> slots;
    std::vector<py::object> owners;  // of memory that was asked for
    for (size_t i = 0; i < views.size(); ++i) {
      keys.push_back({low_word(seeds[i]), low_word(epoch), low_word(index)});
      const Stage& last = views[i]->passes_.stages().back();
      TensorView view = {};
      const bool fits = view_image(images[i], {last.channels, -1, -1}, last.dtype, &view);
      slots.push_back(fits ? Slot{strides_of(view), view.shape[1], view.shape[2]} : Slot{});
    }
    const auto get_memory = [&](size_t i, int64_t height, int64_t width) {
      const Stage& last = views[i]->passes_.stages().back();
      TensorView view = {};
      owners.push_back(image_memory(memory, i, {last.channels, height, width}, last.dtype, &view));
      return strides_of(view);
    };
    Made made;
    if (!make(views, source, is_path, keys, slots, get_memory, &made, nullptr)) return py::none();
    py::list all;
    for (std::vector<ChainPlan>& plans : made.plans) {
      py::list own;
      for (ChainPlan& plan : plans) own.append(PlanObject{std::move(plan), {}});
      all.append(own);
    }
    const Times& times = made.times;
    return py::make_tuple(all, py::make_tuple(times.reading, times.decoding, times.transforming));
  }

  // The image of a file's content as a new tensor, and its plans; null: see above.
  py::object image(py::handle content, const SampleKey& key, std::vector<ChainPlan>* plans,
                   Recorded* recorded) const {
    const Stage& last = passes_.stages().back();
    py::object tensor;
    const auto get_memory = [&](size_t, int64_t height, int64_t width) {
      TensorView view = {};
      tensor = empty_tensor({last.channels, height, width}, torch_dtype(last.dtype), &view);
      return StridedData{view.data, {height * width, width, 1}};
    };
    Made made;
    std::vector<Drawn> drawn;
    if (!make({this}, content, false, {key}, {Slot{}}, get_memory, &made,
              recorded == nullptr ? nullptr : &drawn)) {
      return py::object();
    }
    if (recorded != nullptr) *recorded = {passes_.unpacked(drawn, 1), {made.height, made.width}};
    *plans = std::move(made.plans[0]);
    return tensor;
  }

  // Decodes what the first pass reads of a file, and returns (pixels [h, w, C], (top, left,
  // reduction), (height, width), times): where they begin in the upright image, its size, and the
  // seconds of reading and decoding. None: see above.
  py::object decode(py::handle source, bool is_path, py::handle seed, py::handle epoch,
                    py::handle index) const {
    ContentBuffer buffer;
    Opened file = {};
    Request request;
    Times times;
    std::unique_ptr<uint8_t[]> pixels;
    const SampleKey key = {low_word(seed), low_word(epoch), low_word(index)};
    const Outcome outcome = unlocked(View(source), [&](Content given) {
      const Outcome opened = open(given, is_path, buffer, &file, &times);
      if (opened != Outcome::kGood) return opened;
      const std::vector<ChainPlan> plans = draw(key, file);
      request = request_of(file, window_of(plans.front()), reduction_of(plans.front()));
      pixels.reset(new uint8_t[size_of(request)]);
      return decode_part(file, request, pixels.get(), &times);
    });
    if (outcome == Outcome::kUnusual) return py::none();
    uint8_t* const data = pixels.get();
    const py::capsule owner(pixels.release(),
                            [](void* own) { delete[] static_cast<uint8_t*>(own); });
    const py::array_t<uint8_t> array({request.rows, request.columns, options_.channels}, data,
                                     owner);
    const StoredPart& part = request.part;
    return py::make_tuple(
        array, py::make_tuple(part.position_top, part.position_left, request.reduction),
        py::make_tuple(file.height, file.width), py::make_tuple(times.reading, times.decoding));
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

  // Does work on a Python object's bytes without the interpreter's lock; throws if it wasn't read.
  template <class Work>
  static Outcome unlocked(const View& view, const Work& work) {
    int error = 0;
    Outcome outcome;
    {
      const py::gil_scoped_release release;
      errno = 0;
      outcome = work(view.content());
      error = errno;
    }
    if (outcome == Outcome::kNotRead) {
      const Content path = view.content();
      const auto name = py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(
          reinterpret_cast<const char*>(path.data), static_cast<Py_ssize_t>(path.size)));
      errno = error == 0 ? EIO : error;
      PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name.ptr());
      throw py::error_already_set();
    }
    return outcome;
  }

  // Its content is the source's, or in the buffer.
  Outcome open(Content source, bool is_path, ContentBuffer& buffer, Opened* file,
               Times* times) const {
    Clock clock;
    if (is_path) {
      const std::string path(reinterpret_cast<const char*>(source.data), source.size);
      if (!read_file(path.c_str(), buffer, &source)) return Outcome::kNotRead;
      times->reading = clock.lap();
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
    *file = {source, header[0], header[1], orientation};
    times->decoding = clock.lap();
    return Outcome::kGood;
  }

  std::vector<ChainPlan> draw(const SampleKey& key, const Opened& file,
                              std::vector<Drawn>* drawn = nullptr) const {
    std::optional<py::gil_scoped_acquire> lock;  // for transforms that are written in Python
    if (passes_.call_python()) lock.emplace();
    return passes_.draw({key}, {file.height, file.width}, options_.channels, options_.exact, drawn);
  }

  // What the first pass reads of whole images, and by how much they may be reduced.
  PixelWindow window_of(const ChainPlan& first) const {
    return windows_read(first, options_.reach)[0];
  }
  int64_t reduction_of(const ChainPlan& first) const {
    return options_.reduces ? reductions(first)[0] : 1;
  }

  Request request_of(const Opened& file, const PixelWindow& window, int64_t reduction) const {
    const StoredPart part =
        stored_part(file.height, file.width, file.orientation, window, reduction);
    const bool swaps = swaps_sides(file.orientation);
    return {part, reduction, swaps ? part.width : part.height, swaps ? part.height : part.width};
  }

  size_t size_of(const Request& request) const {
    return static_cast<size_t>(request.rows * request.columns * options_.channels);
  }

  Outcome decode_part(const Opened& file, const Request& given, uint8_t* pixels,
                      Times* times) const {
    Clock clock;
    const StoredPart& part = given.part;
    const int64_t request[7] = {given.reduction, part.top,          part.left,       part.height,
                                part.width,      options_.channels, file.orientation};
    char message[512];
    const auto length = static_cast<int64_t>(file.content.size);
    if (jpeg_.decode(file.content.data, length, request, pixels, message, sizeof(message)) != 0) {
      return Outcome::kUnusual;
    }
    times->decoding += clock.lap();
    return Outcome::kGood;
  }

  // Decodes a file once for all views, and stores each, by its plans, in its slot.
  static Outcome store(const std::vector<const FilePass*>& views,
                       const std::vector<std::vector<ChainPlan>>& plans, const Opened& file,
                       const std::vector<Slot>& slots, Times* times) {
    thread_local Buffer pixels;
    const FilePass& first = *views.front();
    PixelWindow window = {};
    int64_t reduction = 0;
    for (size_t i = 0; i < views.size(); ++i) {
      const PixelWindow own = views[i]->window_of(plans[i].front());
      const int64_t by = views[i]->reduction_of(plans[i].front());
      window = i == 0 ? own : united(window, own);
      reduction = i == 0 ? by : std::min(reduction, by);
    }
    const Request request = first.request_of(file, window, reduction);
    const StoredPart& part = request.part;
    uint8_t* const decoded = pixels.of_size(first.size_of(request));
    const Outcome outcome = first.decode_part(file, request, decoded, times);
    if (outcome != Outcome::kGood) return outcome;
    Clock clock;
    const int64_t rows = request.rows, columns = request.columns;
    const int64_t channels = first.options_.channels;
    const AugmentImage image = {decoded, rows, columns, 1, columns * channels, channels};
    for (size_t i = 0; i < views.size(); ++i) {
      ChainPlan own = plans[i].front();
      move_to_parts({{part.position_top, part.position_left, reduction, rows, columns}}, own);
      std::vector<const ChainPlan*> moved = {&own};
      for (size_t k = 1; k < plans[i].size(); ++k) moved.push_back(&plans[i][k]);
      run_passes(views[i]->passes_.stages(), moved, image, DType::kUInt8, slots[i].data,
                 caller_thread());
    }
    times->transforming = clock.lap();
    return Outcome::kGood;
  }

  static PixelWindow united(const PixelWindow& a, const PixelWindow& b) {
    const int64_t top = std::min(a.top, b.top), left = std::min(a.left, b.left);
    const int64_t bottom = std::max(a.top + a.height, b.top + b.height);
    const int64_t right = std::max(a.left + a.width, b.left + b.width);
    return {top, left, bottom - top, right - left};
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

// Copies the bytes of contiguous arrays to places of one block, given by its address.
void copy_together(const std::vector<py::buffer>& arrays, const std::vector<size_t>& begins,
                   uint64_t address) {
  struct Copy {
    const void* from;
    size_t begin, bytes;
  };
  std::vector<Copy> copies;
  std::vector<py::buffer_info> views;
  for (size_t i = 0; i < arrays.size(); ++i) {
    views.push_back(arrays[i].request());
    const py::buffer_info& view = views.back();
    copies.push_back({view.ptr, begins.at(i), static_cast<size_t>(view.size * view.itemsize)});
  }
  const py::gil_scoped_release release;
  auto* const block = reinterpret_cast<uint8_t*>(address);
  for (const Copy& copy : copies) std::memcpy(block + copy.begin, copy.from, copy.bytes);
}

// The first bytes of an array, as an array that calls give_back(owner) when it is collected. That
// may be anywhere in a program: a callback written in Python would be where Ctrl-C arrives now and
// then, and exceptions end there.
py::array lend(py::array owner, py::ssize_t size, py::object give_back) {
  struct Loan {
    py::array owner;
    py::object give_back;
  };
  void* const data = owner.mutable_data();
  auto loan = std::make_unique<Loan>(Loan{std::move(owner), std::move(give_back)});
  const py::capsule whole(loan.get(), [](void* pointer) {
    const std::unique_ptr<Loan> ended(static_cast<Loan*>(pointer));
    try {
      ended->give_back(ended->owner);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("visops._native.lend");
    }
  });
  loan.release();
  return py::array(py::dtype::of<uint8_t>(), {size}, {}, data, whole);
}

}  // namespace

py::object load_file_image(py::handle file_pass, py::handle content, const SampleKey& key,
                           std::vector<ChainPlan>* plans, Recorded* recorded) {
  return file_pass.cast<const FilePass&>().image(content, key, plans, recorded);
}

void bind_files(py::module_& m) {
  // Height and width of the upright image, orientation, (top, left, height, width), reduction.
  // Returns the fields of StoredPart.
  m.def("stored_part", &cover);
  py::class_<FilePass>(m, "FilePass")
      // Passes as Passes takes them.
      .def(py::init([](const py::list& passes, uint64_t read_header, uint64_t decode,
                       int64_t channels, int64_t max_pixels, bool exif, bool reduces, bool exact,
                       double around, double beyond, bool anywhere) {
        const FileOptions options = {channels, max_pixels, exif,
                                     reduces,  exact,      {around, beyond, anywhere}};
        return FilePass(passes, read_header, decode, options);
      }))
      // The last pass must make an image.
      .def_static("load", &FilePass::load)
      .def("decode", &FilePass::decode);
  m.def("copy_together", &copy_together);
  m.def("lend", &lend);
}

}  // namespace visops
