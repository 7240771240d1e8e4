// Chains of ops/transforms: parameters drawn and composed, and the grey means of contrasts taken,
// in one call per pass.
#include "core/warp/chain.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/image_front.h"
#include "core/warp/augment_front.h"
#include "numpy/array.h"
#include "numpy/augment.h"
#include "numpy/bindings.h"
#include "numpy/drawn.h"
#include "numpy/place.h"

namespace visops {
namespace {

constexpr const char* kOp = "augment";
constexpr int64_t kGrid = 32;  // _GRID in engine/run.py

using Doubles = py::array_t<double>;
using Numbers = std::vector<double>;

// How the pass samples its images.
struct Sampling {
  Interpolation mode;
  Padding padding;
  Numbers fill;
  bool antialias;
  bool window;  // the whole source, which makes the rim one output pixel wide
};

std::vector<double> windows_of(const int64_t* sizes, int64_t batch) {
  std::vector<double> windows(static_cast<size_t>(batch) * 4);
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    windows[4 * i + 2] = static_cast<double>(sizes[2 * i + 1]);
    windows[4 * i + 3] = static_cast<double>(sizes[2 * i]);
  }
  return windows;
}

void write_matrix(const Placement& p, double* out) {
  std::copy_n(p.matrix, p.projective ? 9 : 6, out);
}

// The map from the source to the grid of a mean: grid_matrix() in engine/run.py.
void write_grid_matrix(const Placement& p, double* out) {
  const double side = static_cast<double>(kGrid);
  const double x_scale = side / p.width, y_scale = side / p.height;
  const double own = side * side / (side * side - 1.0), other = side / (side * side - 1.0);
  const double shift = 0.5 * (own - other);
  for (int i = 0; i < 3; ++i) {
    const double x = p.matrix[i] * x_scale, y = p.matrix[3 + i] * y_scale;
    out[i] = x * own - y * other;
    out[3 + i] = y * own - x * other;
  }
  if (p.projective) {
    for (int i = 0; i < 3; ++i) {
      out[6 + i] = p.matrix[6 + i];
      out[i] += p.matrix[6 + i] * shift;
      out[3 + i] += p.matrix[6 + i] * shift;
    }
  } else {
    out[2] += shift;
    out[5] += shift;
  }
}

int64_t rows_of(const Placement& p) { return p.projective ? 3 : 2; }

// Means of small pictures of the images: NOTE on the grey means in engine/run.py.
class ImageMeans : public GreyMeans {
 public:
  ImageMeans(const Sampling& sampling, AugmentParams image, const std::vector<double>& windows)
      : sampling_(sampling), image_(image), windows_(windows) {}

  void take(const ChainPlan& plan, int64_t step, const double* prefix, double* means) override {
    const size_t batch = static_cast<size_t>(plan.batch);
    const int64_t rows = rows_of(plan.colors[static_cast<size_t>(step)].at);
    std::vector<double> matrices(batch * static_cast<size_t>(rows) * 3);
    for (size_t i = 0; i < batch; ++i) {
      const Placement& at =
          plan.colors[i * static_cast<size_t>(plan.color_steps) + static_cast<size_t>(step)].at;
      write_grid_matrix(at, matrices.data() + static_cast<int64_t>(i) * rows * 3);
    }
    AugmentParams p = image_;
    p.matrix = {matrices.data(), DType::kFloat64, false, rows * 3, 3, 1};
    p.matrix_rows = static_cast<int>(rows);
    p.mode = Interpolation::kNearest;
    p.padding = sampling_.padding;
    p.half_pixel = true;
    p.clamp = prefix != nullptr;
    p.window = windows_.empty() ? nullptr : windows_.data();
    p.color = prefix;
    p.color_steps = prefix != nullptr ? 1 : 0;
    p.output_dtype = DType::kUInt8;
    p.output_height = p.output_width = kGrid;
    std::vector<uint8_t> picture(batch * static_cast<size_t>(p.channels * kGrid * kGrid));
    p.output = picture.data();
    p.output_stride = {p.channels * kGrid * kGrid, kGrid * kGrid, kGrid, 1};
    const std::vector<double> none, zero = {0.0};
    const AugmentValues values = {sampling_.fill, none, none, zero};
    check_augment(kOp, p, values);
    check_augment_data(kOp, p);
    set_values(p, values);
    run_augment(p, 4 * p.channels * kGrid);
    for (size_t i = 0; i < batch; ++i) means[i] = mean_of(p, picture.data(), i);
  }

 private:
  static double mean_of(const AugmentParams& p, const uint8_t* picture, size_t sample) {
    int64_t sums[3] = {};
    const uint8_t* plane = picture + static_cast<int64_t>(sample) * p.output_stride.batch;
    for (int64_t c = 0; c < p.channels; ++c, plane += kGrid * kGrid) {
      for (int64_t i = 0; i < kGrid * kGrid; ++i) sums[c] += plane[i];
    }
    double grey = static_cast<double>(sums[0]);
    if (p.channels > 1) {
      grey = grey * kGrey[0] + static_cast<double>(sums[1]) * kGrey[1] +
             static_cast<double>(sums[2]) * kGrey[2];
    }
    return grey * (1.0 / (255.0 * static_cast<double>(kGrid * kGrid)));
  }

  const Sampling& sampling_;
  AugmentParams image_;
  const std::vector<double>& windows_;
};

uint64_t low_word(py::handle number) {
  const uint64_t word = PyLong_AsUnsignedLongLongMask(number.ptr());
  if (word == ~uint64_t{0} && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return word;
}

// Images as (address, strides) of a batch [B, C, H, W] or, in a list, of each image [C, H, W].
// None: images elsewhere, at which no step of the chain looks.
AugmentParams images_of(py::handle images, DType dtype, const int64_t* sizes, int64_t batch,
                        int64_t channels, std::vector<AugmentImage>& list) {
  AugmentParams p = {};
  p.batch = batch;
  p.channels = channels;
  p.dtype = dtype;
  if (images.is_none()) return p;
  if (py::isinstance<py::tuple>(images)) {
    const Place place = place_of(images, 4);
    const auto& strides = place.strides;
    p.first = {place.address, sizes[0], sizes[1], strides[1], strides[2], strides[3]};
    p.image_batch_stride = strides[0];
    return p;
  }
  for (py::handle image : images) {
    const Place place = place_of(image, 3);
    const auto& strides = place.strides;
    const int64_t* const size = sizes + 2 * list.size();
    list.push_back({place.address, size[0], size[1], strides[0], strides[1], strides[2]});
  }
  if (static_cast<int64_t>(list.size()) != batch) throw std::invalid_argument("another batch");
  p.list = list.data();
  return p;
}

bool has_contrast(const ChainPlan& plan) {
  return std::any_of(plan.colors.begin(), plan.colors.end(),
                     [](const ColorStep& step) { return step.weight != 0.0; });
}

class Chain {
 public:
  Chain(const py::list& steps, const std::string& interpolation, const std::string& padding_mode,
        Numbers fill, bool antialias, bool window)
      : sampling_{parse_interpolation(kOp, interpolation), parse_padding(kOp, padding_mode),
                  std::move(fill), antialias, window} {
    for (py::handle step : steps) {
      const auto [name, first, numbers] =
          py::cast<std::tuple<std::string, int64_t, std::vector<double>>>(step);
      steps_.push_back(chain_step(name, first, numbers));
    }
  }

  // Returns None where a transform or the operator would refuse a sample: the caller's own path
  // then says why. Otherwise matrices [B, 2 or 3, 3], their ties [B, 2] or None, heights and widths
  // (a pair, or [B, 2]), windows [B, 4], colours [B, 1, C, C + 1] and rectangles [B, K, 4], each of
  // the last three None where there is none.
  py::object run(py::handle seed, py::handle epoch, const py::sequence& indices,
                 const py::array_t<int64_t, py::array::c_style>& sizes, int64_t channels,
                 py::handle images, const std::string& dtype) const {
    std::vector<uint64_t> places;
    places.reserve(indices.size());
    for (py::handle index : indices) places.push_back(low_word(index));
    if (sizes.ndim() != 2 || sizes.shape(1) != 2 ||
        sizes.shape(0) != static_cast<py::ssize_t>(places.size()) || places.empty()) {
      throw std::invalid_argument("sizes must be [B, 2] for B indices");
    }
    const uint64_t first = low_word(seed), second = low_word(epoch);
    const int64_t batch = sizes.shape(0);
    std::vector<AugmentImage> list;
    const AugmentParams image =
        images_of(images, dtype_named(dtype), sizes.data(), batch, channels, list);
    std::vector<double> windows, color;
    if (sampling_.window) windows = windows_of(sizes.data(), batch);
    ChainPlan plan;
    const auto work = [&] {
      if (!draw_chain(steps_, first, second, places, sizes.data(), channels, &plan)) return false;
      if (plan.color_steps == 0) return true;
      if (images.is_none() && has_contrast(plan)) throw std::invalid_argument("images are None");
      color.resize(static_cast<size_t>(batch * channels * (channels + 1)));
      ImageMeans grey(sampling_, image, windows);
      try {
        compose_colors(plan, grey, color.data());
      } catch (const InvalidArgument&) {
        return false;
      }
      return true;
    };
    bool done = false;
    if (batch == 1) {
      done = work();
    } else {
      const py::gil_scoped_release release;
      done = work();
    }
    if (!done) return py::none();
    return result(plan, windows, color);
  }

  // Draws for one sample, of which `augment` then makes the image. None: as `run`.
  std::optional<Drawn> draw(py::handle seed, py::handle epoch, py::handle index, int64_t height,
                            int64_t width, int64_t channels) const {
    Drawn drawn = {{}, height, width};
    const int64_t sizes[2] = {height, width};
    if (!draw_chain(steps_, low_word(seed), low_word(epoch), {low_word(index)}, sizes, channels,
                    &drawn.plan)) {
      return std::nullopt;
    }
    return drawn;
  }

  // Runs the pass on an image [C, H, W]; images are (address, strides). Where this throws, the
  // caller's other path says what is wrong.
  void augment(const Drawn& drawn, py::handle image, const std::string& dtype, py::handle out,
               const std::string& out_dtype, const Numbers& mean, const Numbers& std,
               const Numbers& erase_value) const {
    const Place from = place_of(image, 3), to = place_of(out, 3);
    const ChainPlan& plan = drawn.plan;
    const Placement& placement = drawn.placement();
    const int64_t sizes[2] = {drawn.height, drawn.width}, c = plan.channels;
    AugmentParams p = {};
    p.batch = 1;
    p.channels = c;
    p.first = {from.address,    drawn.height,    drawn.width,
               from.strides[0], from.strides[1], from.strides[2]};
    p.dtype = dtype_named(dtype);
    const AugmentParams source = p;
    p.output_dtype = dtype_named(out_dtype);
    p.output_height = drawn.new_height();
    p.output_width = drawn.new_width();
    p.output = to.address;
    p.output_stride = {0, to.strides[0], to.strides[1], to.strides[2]};
    double matrix[9];
    write_matrix(placement, matrix);
    if (sampling_.mode == Interpolation::kNearest && !placement.projective) {
      matrix[2] += placement.ties[0];
      matrix[5] += placement.ties[1];
    }
    const int64_t rows = rows_of(placement);
    p.matrix = {matrix, DType::kFloat64, false, rows * 3, 3, 1};
    p.matrix_rows = static_cast<int>(rows);
    p.mode = sampling_.mode;
    p.padding = sampling_.padding;
    p.antialias = sampling_.antialias;
    p.half_pixel = true;
    Numbers windows, color;
    if (sampling_.window) {
      windows = windows_of(sizes, 1);
      p.window = windows.data();
    }
    if (plan.erase_steps > 0) {
      p.erase = plan.erased.data();
      p.erase_count = plan.erase_steps;
    }
    const AugmentValues values = {sampling_.fill, mean, std, erase_value};
    const int64_t row_elements = c * p.output_width;
    run_unlocked(p.output_height * row_elements, [&] {
      if (plan.color_steps > 0) {
        color.resize(static_cast<size_t>(c * (c + 1)));
        ImageMeans grey(sampling_, source, windows);
        compose_colors(plan, grey, color.data());
        p.color = color.data();
        p.color_shared = p.clamp = true;
        p.color_steps = 1;
      }
      check_augment(kOp, p, values);
      check_augment_data(kOp, p);
      set_values(p, values);
      run_augment(p, 4 * row_elements);
    });
  }

 private:
  template <class T>
  static py::object array(const std::vector<T>& values, std::vector<py::ssize_t> shape) {
    if (values.empty()) return py::none();
    return py::array_t<T>(std::move(shape), values.data());
  }

  py::object result(const ChainPlan& plan, const std::vector<double>& windows,
                    const std::vector<double>& color) const {
    const Placement& first = plan.placements[0];
    const int64_t rows = rows_of(first), batch = plan.batch;
    Doubles matrices({batch, rows, int64_t{3}}), ties({batch, int64_t{2}});
    double *matrix = matrices.mutable_data(), *tie = ties.mutable_data();
    bool uniform = true;
    for (const Placement& p : plan.placements) {
      write_matrix(p, matrix);
      std::copy_n(p.ties, 2, tie);
      uniform &= p.height == first.height && p.width == first.width;
      matrix += rows * 3;
      tie += 2;
    }
    py::object sizes =
        py::make_tuple(static_cast<int64_t>(first.height), static_cast<int64_t>(first.width));
    if (!uniform) {
      py::array_t<int64_t> each({batch, int64_t{2}});
      int64_t* side = each.mutable_data();
      for (const Placement& p : plan.placements) {
        *side++ = static_cast<int64_t>(p.height);
        *side++ = static_cast<int64_t>(p.width);
      }
      sizes = each;
    }
    const int64_t c = plan.channels;
    return py::make_tuple(matrices, ties, sizes, array(windows, {batch, 4}),
                          array(color, {batch, 1, c, c + 1}),
                          array(plan.erased, {batch, plan.erase_steps, 4}));
  }

  Sampling sampling_;
  std::vector<ChainStep> steps_;
};

}  // namespace

void bind_chain(py::module_& m) {
  py::class_<Drawn>(m, "Drawn")
      .def_property_readonly(
          "size", [](const Drawn& d) { return py::make_tuple(d.new_height(), d.new_width()); })
      .def_property_readonly("projective", [](const Drawn& d) { return d.placement().projective; })
      .def_property_readonly("still", &Drawn::is_still);
  py::class_<Chain>(m, "Chain")
      .def(py::init<const py::list&, const std::string&, const std::string&, Numbers, bool, bool>())
      .def("run", &Chain::run)
      .def("draw", &Chain::draw)
      .def("augment", &Chain::augment);
}

}  // namespace visops
