#include "core/chain/run/on_device.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/dispatch/cuda_library.h"
#include "core/numbers/arithmetic.h"
#include "core/pixels/adjust.h"
#include "core/pixels/colors/grey_means.h"
#include "core/pixels/filters/filter.h"
#include "core/warp/augment_segment.h"

namespace visops {
namespace {

using Numbers = std::vector<double>;
constexpr int64_t kMeanPixels = kMeanGrid * kMeanGrid;

template <class Params>
void run_kernel(const KernelStub<Params>& stub, const Params& params, const Device& device) {
  using Kernel = typename KernelStub<Params>::Kernel;
  const auto kernel = reinterpret_cast<Kernel>(stub.kernel(device.slot));
  if (kernel == nullptr) {
    throw std::runtime_error("visops." + std::string(stub.name()) + ": there is no kernel");
  }
  kernel(params, device.workspace);
}

bool have_one_size(const std::vector<GeometryState>& samples, const Canvas GeometryState::* which) {
  const Canvas& first = samples[0].*which;
  return std::all_of(samples.begin(), samples.end(), [&](const GeometryState& own) {
    return (own.*which).height == first.height && (own.*which).width == first.width;
  });
}

// Numbers of the host, and where they are once they have been sent. All have eight bytes.
class Sent {
 public:
  // Returns the place of a copy.
  template <class T>
  size_t add(const T* values, size_t count) {
    static_assert(sizeof(T) % kWord == 0, "whole words");
    const size_t place = words_.size();
    words_.resize(place + count * sizeof(T) / kWord);
    if (count > 0) std::memcpy(words_.data() + place, values, count * sizeof(T));
    return place;
  }

  size_t add(const Numbers& numbers) { return add(numbers.data(), numbers.size()); }

  // Sends all, and has room for so many further bytes behind them.
  void send(int64_t room, const Device& device) {
    const auto count = static_cast<int64_t>(words_.size());
    memory_ = allocate<uint64_t>(device.workspace, count + parts_of(room, kWord));
    run_kernel(send_numbers_stub, {words_.data(), memory_, count}, device);
    room_ = reinterpret_cast<char*>(memory_ + count);
  }

  template <class T>
  T* at(size_t place) const {
    return reinterpret_cast<T*>(memory_ + place);
  }

  // Some of the room.
  void* take(int64_t bytes) {
    void* const taken = room_;
    room_ += parts_of(bytes, kWord) * kWord;
    return taken;
  }

 private:
  static constexpr int64_t kWord = sizeof(uint64_t);

  std::vector<uint64_t> words_;
  uint64_t* memory_ = nullptr;
  char* room_ = nullptr;
};

// A problem whose samples are among the numbers that are sent.
class DeviceProblem {
 public:
  // Checks a problem as the CPU's front does, and computes its samples.
  DeviceProblem(AugmentParams params, const AugmentValues& values, Sent& sent) : p_(params) {
    check_augment("augment", p_, values);
    check_augment_data("augment", p_);
    set_values(p_, values);
    std::vector<AugmentSample> samples(static_cast<size_t>(p_.batch));
    for (int64_t i = 0; i < p_.batch; ++i) {
      AugmentSample& own = samples[static_cast<size_t>(i)];
      std::memset(static_cast<void*>(&own), 0, sizeof(own));  // its padding is sent, too
      own = augment_sample(p_, i, p_.list[i]);
      p_.kinds |= bit_of(kind_of(own));
    }
    samples_ = sent.add(samples.data(), samples.size());
    if (p_.erase != nullptr) {
      erased_ = sent.add(p_.erase, static_cast<size_t>(p_.batch * p_.erase_count * 4));
    }
  }

  // With colours that are on the device, if it has any.
  void run(const Sent& sent, const double* color, const Device& device) {
    p_.samples = sent.at<AugmentSample>(samples_);
    p_.color = color;
    if (p_.erase != nullptr) p_.erase = sent.at<int64_t>(erased_);
    // Kernels read numbers and images of samples alone.
    p_.list = nullptr;
    p_.window = nullptr;
    p_.matrix.data = nullptr;
    run_kernel(augment_stub, p_, device);
  }

  AugmentParams& params() { return p_; }

 private:
  AugmentParams p_;
  size_t samples_ = 0, erased_ = 0;
};

// Colours among the numbers that are sent, to which means are added on the device.
class DeviceColors {
 public:
  DeviceColors(const ColorMatrices& colors, int64_t batch, int64_t channels, Sent& sent)
      : batch_(batch), channels_(channels), steps_(colors.steps) {
    elements_ = sent.add(colors.elements);
    for (const Numbers& own : colors.weights) weights_.push_back(sent.add(own));
  }

  int64_t bytes_of_results() const {
    return static_cast<int64_t>(weights_.size()) * bytes_of_result();
  }

  // Null where colours don't change.
  const double* with_means(const std::vector<const uint8_t*>& pictures, Sent& sent,
                           const Device& device) const {
    if (steps_ == 0) return nullptr;
    const double* color = sent.at<double>(elements_);
    for (size_t i = 0; i < weights_.size(); ++i) {
      auto* const next = static_cast<double*>(sent.take(bytes_of_result()));
      run_kernel(grey_means_stub,
                 {pictures.at(i), color, sent.at<double>(weights_[i]), next, batch_, channels_,
                  kMeanPixels, steps_, mean_scale(kMeanPixels)},
                 device);
      color = next;
    }
    return color;
  }

 private:
  int64_t bytes_of_result() const {
    return batch_ * steps_ * channels_ * (channels_ + 1) * static_cast<int64_t>(sizeof(double));
  }

  int64_t batch_, channels_, steps_;
  size_t elements_ = 0;
  std::vector<size_t> weights_;
};

// A batch on its way through the passes.
class Batch {
 public:
  Batch(const std::vector<AugmentImage>& images, int64_t channels, DType dtype,
        const Device& device)
      : images_(images), channels_(channels), dtype_(dtype), device_(device) {}

  // Makes images, at `to`.
  void make(const Stage& stage, const ChainPlan& plan, const StridedData& to) {
    const Interpolation mode = stage.sampling.modes.at(0);
    PassProblem problem(plan.samples, mode, stage.sampling);
    problem.set_images(source());
    problem.erase(plan.erased);
    AugmentParams& p = problem.params;
    set_output(p, to, stage.dtype);
    const bool saturates = stage.sampling.clamps(mode, dtype_);
    p.clamp = saturates || (!plan.colors.empty() && plan.clamps);
    ColorProgram program = color_program(plan);
    if (plan.exact && saturates && !plan.colors.empty()) {  // before colours change
      put_identity_first(program.whole.elements, plan.batch, plan.channels);
      ++program.whole.steps;
    }
    problem.set_color(program.whole.elements, program.whole.steps, false);
    const Numbers &fill = stage.sampling.fill, none;
    const Numbers zero = {0.0};
    Sent sent;
    DeviceProblem whole(p, {fill, stage.mean, stage.std, stage.erase_value}, sent);
    const DeviceColors colors(program.whole, plan.batch, plan.channels, sent);
    std::vector<DeviceProblem> means;
    std::vector<DeviceColors> before;
    int64_t room = colors.bytes_of_results();
    for (const MeanRound& round : program.rounds) {
      PassProblem mean = PassProblem::of_mean(plan.colors[round.step].at, stage.sampling);
      mean.set_images(source());
      mean.set_color(round.before.elements, round.before.steps, false);
      mean.params.clamp = round.before.steps > 0;
      means.emplace_back(mean.params, AugmentValues{fill, none, none, zero}, sent);
      before.emplace_back(round.before, plan.batch, plan.channels, sent);
      room += before.back().bytes_of_results() + bytes_of_picture();
    }
    sent.send(room, device_);
    std::vector<const uint8_t*> pictures;
    for (size_t i = 0; i < means.size(); ++i) {
      AugmentParams& own = means[i].params();
      own.output = sent.take(bytes_of_picture());
      own.output_stride = {channels_ * kMeanPixels, kMeanPixels, kMeanGrid, 1};
      means[i].run(sent, before[i].with_means(pictures, sent, device_), device_);
      pictures.push_back(static_cast<const uint8_t*>(own.output));
    }
    whole.run(sent, colors.with_means(pictures, sent, device_), device_);
    has_become(to, p.output_height, p.output_width, stage.dtype);
  }

  // The same, where a result has another number of channels than its image, all of them equal.
  void make_channels(const Stage& stage, const ChainPlan& plan, const StridedData& to) {
    make(stage, plan, memory_for(plan, channels_, stage.dtype));
    channels_ = 1;
    const std::vector<AugmentImage> first = images_;
    StridedData plane = to;
    for (int64_t c = 0; c < stage.channels; ++c) {
      images_ = first;
      copy(plane);
      plane.address = static_cast<char*>(plane.address) + to.strides[1] * element_size(stage.dtype);
    }
    channels_ = stage.channels;
    has_become(to, images_[0].height, images_[0].width, stage.dtype);
  }

  // Makes the same images.
  void copy(const StridedData& to) {
    const Numbers nothing = {0.0};
    warp({identities(), Interpolation::kNearest, size()}, nothing, to);
  }

  // Applies the operations of each image in turn, those of a turn together; the result is at `to`,
  // or elsewhere if that is null. Images without operations stay where they are.
  void change(const Stage& stage, const ChainPlan& plan, const StridedData* to) {
    std::vector<std::vector<PixelOperation>> all;
    size_t turns = 0;
    for (size_t i = 0; i < images_.size() && !plan.operations.empty(); ++i) {
      all.push_back(operations_of(plan, i, 0));
      turns = std::max(turns, all.back().size());
    }
    if (turns == 0) return;
    if (!is_contiguous()) copy(memory());
    for (size_t turn = 0; turn < turns; ++turn) {
      const PixelOperation identity = {PixelKind::kIdentity};
      std::vector<PixelOperation> own;
      for (const auto& each : all) own.push_back(turn < each.size() ? each[turn] : identity);
      const auto count = [&](PixelKind kind) {
        return std::count_if(own.begin(), own.end(),
                             [&](const PixelOperation& each) { return each.kind == kind; });
      };
      const int64_t moved = count(PixelKind::kAffine);
      const std::vector<KernelSize> sizes = blurs_of(own);
      const int64_t apart = moved + count(PixelKind::kGaussianBlur) + count(PixelKind::kIdentity);
      const bool others = apart < static_cast<int64_t>(own.size());
      size_t left = (moved > 0 ? 1 : 0) + sizes.size() + (others ? 1 : 0);  // steps of this turn
      const auto next = [&] {
        --left;
        return to != nullptr && turn + 1 == turns && left == 0 ? *to : memory();
      };
      if (moved > 0) move(stage, own, next());
      for (const KernelSize& size : sizes) blur(own, size, next());
      if (others) adjust(std::move(own), next());
    }
  }

  bool is_at(const StridedData& place) const { return images_[0].data == place.address; }

  // Memory for what a plan makes.
  StridedData memory_for(const ChainPlan& plan, int64_t channels, DType dtype) {
    const Canvas& canvas = plan.samples[0].canvas;
    return memory(channels, dtype, static_cast<int64_t>(canvas.height),
                  static_cast<int64_t>(canvas.width));
  }

 private:
  Canvas size() const {
    return {static_cast<double>(images_[0].height), static_cast<double>(images_[0].width)};
  }

  // A matrix of 2 x 3 for each image.
  Numbers identities() const {
    Numbers matrices;
    for (size_t i = 0; i < images_.size(); ++i) {
      matrices.insert(matrices.end(), {1.0, 0.0, 0.0, 0.0, 1.0, 0.0});
    }
    return matrices;
  }

  AugmentParams source() const {
    AugmentParams p = {};
    p.list = images_.data();
    p.channels = channels_;
    p.dtype = dtype_;
    return p;
  }

  static void set_output(AugmentParams& p, const StridedData& to, DType dtype) {
    p.output_dtype = dtype;
    p.output = to.address;
    p.output_stride = {to.strides[0], to.strides[1], to.strides[2], to.strides[3]};
  }

  int64_t bytes_of_picture() const {
    return static_cast<int64_t>(images_.size()) * channels_ * kMeanPixels;
  }

  // Samples the images, of one size, without colours.
  void warp(PassProblem problem, const Numbers& fill, const StridedData& to) {
    problem.set_images(source());
    set_output(problem.params, to, dtype_);
    const Numbers none, zero = {0.0};
    Sent sent;
    DeviceProblem whole(problem.params, {fill, none, none, zero}, sent);
    sent.send(0, device_);
    whole.run(sent, nullptr, device_);
    has_become(to, images_[0].height, images_[0].width, dtype_);
  }

  void move(const Stage& stage, const std::vector<PixelOperation>& operations,
            const StridedData& to) {
    Numbers matrices = identities();
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].kind == PixelKind::kAffine) {
        std::copy_n(operations[i].matrix, 6, matrices.begin() + static_cast<int64_t>(6 * i));
      }
    }
    warp({std::move(matrices), stage.sampling.modes.at(0), size()}, stage.sampling.fill, to);
  }

  // Width and height of a kernel, which images that are blurred together share.
  using KernelSize = std::pair<int64_t, int64_t>;

  static KernelSize kernel_of(const PixelOperation& blur) {
    return {static_cast<int64_t>(blur.more[0]), static_cast<int64_t>(blur.more[1])};
  }

  // Those of all Gaussian blurs, each once.
  static std::vector<KernelSize> blurs_of(const std::vector<PixelOperation>& operations) {
    std::vector<KernelSize> sizes;
    for (const PixelOperation& own : operations) {
      if (own.kind == PixelKind::kGaussianBlur) sizes.push_back(kernel_of(own));
    }
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  }

  // Blurs the images whose kernel has this size, and copies the others.
  void blur(const std::vector<PixelOperation>& operations, const KernelSize& size,
            const StridedData& to) {
    std::vector<float> rows, columns;
    for (const PixelOperation& own : operations) {
      const bool takes = own.kind == PixelKind::kGaussianBlur && kernel_of(own) == size;
      add_weights(takes ? gaussian_taps(size.first, own.amount) : only_middle(size.first), rows);
      add_weights(takes ? gaussian_taps(size.second, own.amount) : only_middle(size.second),
                  columns);
    }
    const int64_t height = images_[0].height, width = images_[0].width;
    const auto batch = static_cast<int64_t>(images_.size());
    const SeparableParams p = {images_[0].data, to.address,  dtype_,      batch,          channels_,
                               height,          width,       rows.data(), columns.data(), batch,
                               size.first,      size.second, true};
    check_separable("filter_separable", p);
    run_kernel(separable_stub, p, device_);
    has_become(to, height, width, dtype_);
  }

  // Taps that change nothing.
  static Taps only_middle(int64_t side) {
    Taps taps(static_cast<size_t>(side / 2 + 1));
    taps[0] = 1.0f;
    return taps;
  }

  static void add_weights(const Taps& taps, std::vector<float>& weights) {
    weights.insert(weights.end(), taps.rbegin(), taps.rend());
    weights.insert(weights.end(), taps.begin() + 1, taps.end());
  }

  void adjust(std::vector<PixelOperation> operations, const StridedData& to) {
    for (PixelOperation& own : operations) {
      const bool done = own.kind == PixelKind::kAffine || own.kind == PixelKind::kGaussianBlur;
      if (done) own = {PixelKind::kIdentity};
    }
    const int64_t height = images_[0].height, width = images_[0].width;
    const AdjustParams p = {
        images_[0].data, to.address, dtype_, static_cast<int64_t>(images_.size()),
        channels_,       height,     width,  operations.data()};
    check_adjust("adjust_pixels", p);
    run_kernel(adjust_stub, p, device_);
    has_become(to, height, width, dtype_);
  }

  // Whether the images lie as a contiguous batch does.
  bool is_contiguous() const {
    const int64_t height = images_[0].height, width = images_[0].width;
    const int64_t bytes = channels_ * height * width * element_size(dtype_);
    for (size_t i = 0; i < images_.size(); ++i) {
      const AugmentImage& own = images_[i];
      const bool plain =
          own.channel_stride == height * width && own.row_stride == width && own.column_stride == 1;
      const char* const first = static_cast<const char*>(images_[0].data);
      if (!plain || own.data != first + static_cast<int64_t>(i) * bytes) return false;
    }
    return true;
  }

  StridedData memory() { return memory(channels_, dtype_, images_[0].height, images_[0].width); }

  StridedData memory(int64_t channels, DType dtype, int64_t height, int64_t width) {
    const int64_t size = channels * height * width;
    const int64_t bytes = static_cast<int64_t>(images_.size()) * size * element_size(dtype);
    return {between(bytes), {size, height * width, width, 1}};
  }

  // Memory that doesn't hold the images as they are now: two pieces take turns.
  void* between(int64_t bytes) {
    for (const auto& [memory, size] : pieces_) {
      if (size >= bytes && memory != images_[0].data) return memory;
    }
    pieces_.emplace_back(device_.workspace.allocate(bytes), bytes);
    return pieces_.back().first;
  }

  void has_become(const StridedData& at, int64_t height, int64_t width, DType dtype) {
    const int64_t bytes = at.strides[0] * element_size(dtype);
    for (size_t i = 0; i < images_.size(); ++i) {
      images_[i] = {static_cast<char*>(at.address) + static_cast<int64_t>(i) * bytes,
                    height,
                    width,
                    at.strides[1],
                    at.strides[2],
                    at.strides[3]};
    }
    dtype_ = dtype;
  }

  std::vector<AugmentImage> images_;
  int64_t channels_;
  DType dtype_;
  const Device& device_;
  std::vector<std::pair<void*, int64_t>> pieces_;  // of memory between steps, and their bytes
};

bool runs_by_values(const ChainPlan& plan) {
  for (const auto& operations : plan.operations) {
    for (const PixelOperation& own : operations) {
      const double most = static_cast<double>(kMostFilterTaps);
      const bool is_large = own.more[0] > most || own.more[1] > most;
      if (own.kind == PixelKind::kGaussianBlur && is_large) return false;
    }
  }
  return have_one_size(plan.samples, &GeometryState::source);
}

bool runs_as_problem(const ChainPlan& plan) {
  const auto takes_mean = [](const ColorSteps& steps) { return steps.takes_means(); };
  // Means of all pixels are sums of torch's.
  const bool exact_means =
      plan.exact && std::any_of(plan.colors.begin(), plan.colors.end(), takes_mean);
  const bool by_channel = !plan.colors.empty() && plan.color_channels() != plan.channels;
  return !exact_means && !by_channel && plan.modes.empty() &&
         have_one_size(plan.samples, &GeometryState::canvas);
}

}  // namespace

bool runs_on_device(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const ChainPlan& plan = *plans[i];
    if (stages[i].by_values ? !runs_by_values(plan) : !runs_as_problem(plan)) return false;
  }
  return true;
}

void run_on_device(const std::vector<Stage>& stages, const std::vector<const ChainPlan*>& plans,
                   const std::vector<AugmentImage>& images, DType dtype, const StridedData& to,
                   const Device& device) {
  if (plans.size() != stages.size()) throw std::invalid_argument("a plan per pass is needed");
  Batch batch(images, plans[0]->channels, dtype, device);
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool is_last = i + 1 == stages.size();
    if (stages[i].by_values) {
      batch.change(stages[i], *plans[i], is_last ? &to : nullptr);
    } else {
      const Stage& stage = stages[i];
      const StridedData next =
          is_last ? to : batch.memory_for(*plans[i], stage.channels, stage.dtype);
      const bool alike = stage.channels == plans[i]->channels;
      alike ? batch.make(stage, *plans[i], next) : batch.make_channels(stage, *plans[i], next);
    }
  }
  if (!batch.is_at(to)) batch.copy(to);
}

}  // namespace visops
