// The samples of a deformable convolution on CUDA: NOTE [ Samples of a deformable convolution ]
// (core/deformable/conv2d.h).
#pragma once

#include "core/deformable/conv2d.h"
#include "core/numbers/arithmetic.h"
#include "core/numbers/element.h"
#include "cuda/launch.h"

namespace visops {
namespace {

// An output pixel of an image.
struct PixelAt {
  int64_t image, pixel, row, column;
};

// Output pixel `at` of all images; `at` may lie beyond the last one.
__device__ inline PixelAt pixel_at(const DeformConvParams& p, int64_t at) {
  const int64_t pixels = p.pixels(), image = at / pixels, pixel = at - image * pixels;
  const int64_t row = pixel / p.x.output;
  return {image, pixel, row, pixel - row * p.x.output};
}

template <class Acc>
struct LocatedTap {
  BilinearSample<Acc> position;
  Acc mask;
};

template <class Acc>
__device__ LocatedTap<Acc> locate_tap(const DeformConvParams& p, const PixelAt& at,
                                      int64_t offset_group, int64_t tap) {
  const int64_t v = tap / p.x.kernel, u = tap - v * p.x.kernel, pixels = p.pixels();
  const int64_t first = ((at.image * p.offset_groups + offset_group) * p.taps() + tap) * pixels;
  const Acc* offset = static_cast<const Acc*>(p.offset) + 2 * first + at.pixel;
  const Acc y = static_cast<Acc>(p.y.position(at.row, v)) + offset[0];
  const Acc x = static_cast<Acc>(p.x.position(at.column, u)) + offset[pixels];
  const Acc mask =
      p.mask != nullptr ? static_cast<const Acc*>(p.mask)[first + at.pixel] : static_cast<Acc>(1);
  return {
      bilinear_sample_at(x, y, static_cast<int32_t>(p.y.input), static_cast<int32_t>(p.x.input)),
      mask};
}

// A sample of all channels that share its place.
template <class Acc>
struct SampleTaps {
  int32_t taps;
  int64_t first;  // elements of the input before tap 00 of channel 0
  Acc weight[4];
};

template <class Acc>
__device__ SampleTaps<Acc> sample_taps(const DeformConvParams& p, const PixelAt& at,
                                       int64_t offset_group, int64_t tap) {
  const LocatedTap<Acc> located = locate_tap<Acc>(p, at, offset_group, tap);
  SampleTaps<Acc> sample;
  sample.taps = located.position.taps;
  sample.first = at.image * p.input_batch + located.position.y * p.input_row +
                 located.position.x * p.input_column;
  bilinear_weights(located.position, located.mask, sample.weight);
  return sample;
}

template <class T, class Acc>
__device__ Acc read_sample(const DeformConvParams& p, const SampleTaps<Acc>& s, int64_t channel) {
  const T* from = static_cast<const T*>(p.input) + s.first + channel * p.input_channel;
  const Acc zero = static_cast<Acc>(0);
  if (s.taps == 0) return zero;
  const Acc v00 = (s.taps & kTap00) != 0 ? load_element(from) : zero;
  const Acc v01 = (s.taps & kTap01) != 0 ? load_element(from + p.input_column) : zero;
  const Acc v10 = (s.taps & kTap10) != 0 ? load_element(from + p.input_row) : zero;
  const Acc v11 = (s.taps & kTap11) != 0 ? load_element(from + p.input_row + p.input_column) : zero;
  return (s.weight[0] * v00 + s.weight[1] * v01) + (s.weight[2] * v10 + s.weight[3] * v11);
}

// What kernels read of the rows' gradient: NOTE [ Gradients of a deformable convolution ]
// (core/deformable/conv2d.h).

// Channels that share a group and an offset group.
struct ChannelRun {
  int64_t first, count;
};

// f(run) for runs of up to `most` channels, in order.
template <class F>
void for_channel_runs(const DeformConvParams& p, int64_t most, const F& f) {
  for (int64_t c = 0; c < p.channels;) {
    const int64_t run = p.run_end(c), end = c + most < run ? c + most : run;
    f(ChannelRun{c, end - c});
    c = end;
  }
}

// The part's gradients of a run. A kernel would divide again for each sample to find them.
template <class Acc>
struct RunGradients {
  const Acc* first;
  int64_t step;  // to the next row, of [part_pixels, taps]
};

template <class Acc>
RunGradients<Acc> run_gradients(const DeformConvParams& p, const ChannelRun& run) {
  const int64_t ins = p.group_channels(), group = run.first / ins;
  return {static_cast<const Acc*>(p.row_gradients) + group * p.part_pixels * p.taps() * ins +
              run.first - group * ins,
          ins};
}

}  // namespace
}  // namespace visops
