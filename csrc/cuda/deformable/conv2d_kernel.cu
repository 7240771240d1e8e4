// NOTE [ Rows of a deformable convolution on CUDA ]
// A part of a warp has a sample: an output pixel, a tap, and the channels of a group. Where it lies
// is computed once; then lanes read adjacent channels of its four pixels, 16 bytes each where they
// lie so, and write them side by side. torch multiplies the rows: csrc/torch/deformable/rows.h.
//
// Rounding: without contraction (-fmad=false), so samples have the CPU's bits.
#include "cuda/deformable/conv2d_samples.h"
#include "cuda/deformable/elements.h"

namespace visops {
namespace {

constexpr int kThreads = 256, kWarpSize = 32;

// `kCount` channels of a sample.
template <class T, int kCount, class Acc>
__device__ Elements<T, kCount> read_channels(const DeformConvParams& p, const SampleTaps<Acc>& s,
                                             int64_t channel) {
  Elements<T, kCount> found;
  if constexpr (kCount == 1) {
    store_element(&found.value[0], read_sample<T>(p, s, channel));
    return found;
  }
  const T* const from = static_cast<const T*>(p.input) + s.first + channel;
  Elements<T, kCount> taps[4] = {};  // zeros where there is no pixel
  if ((s.taps & kTap00) != 0) taps[0] = load_elements<kCount>(from);
  if ((s.taps & kTap01) != 0) taps[1] = load_elements<kCount>(from + p.input_column);
  if ((s.taps & kTap10) != 0) taps[2] = load_elements<kCount>(from + p.input_row);
  if ((s.taps & kTap11) != 0) {
    taps[3] = load_elements<kCount>(from + p.input_row + p.input_column);
  }
  for (int i = 0; i < kCount; ++i) {
    const auto tap = [&](int k) { return static_cast<Acc>(load_element(&taps[k].value[i])); };
    const Acc sum = (s.weight[0] * tap(0) + s.weight[1] * tap(1)) +
                    (s.weight[2] * tap(2) + s.weight[3] * tap(3));
    store_element(&found.value[i], s.taps != 0 ? sum : static_cast<Acc>(0));
  }
  return found;
}

// What follows the samples of a row: 1 for the bias, then zeros.
template <class T, class Acc>
__device__ void finish_row(const DeformConvParams& p, T* row, int64_t begin, int64_t depth,
                           int lane, int lanes) {
  for (int64_t k = begin + lane; k < depth; k += lanes) {
    store_element(row + k, static_cast<Acc>(k == begin && p.bias != nullptr ? 1 : 0));
  }
}

// `lanes` threads have a sample.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads, sizeof(typename Accumulate<T>::type) == 8 ? 2 : 3)
    deform_conv2d_rows(const __grid_constant__ DeformRowsParams r, const int lanes,
                       const int64_t samples) {
  using Acc = typename Accumulate<T>::type;
  const DeformConvParams& p = r.conv;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t ins = p.group_channels(), taps = p.taps();
  const int64_t step = int64_t{gridDim.x} * (kThreads / lanes);
  int64_t i = int64_t{blockIdx.x} * (kThreads / lanes) + threadIdx.x / lanes;
  for (; i < samples; i += step) {
    const int64_t line = i / taps, tap = i - line * taps;
    const int64_t group = line / r.count, pixel = line - group * r.count;
    const PixelAt at = pixel_at(p, r.first + pixel);
    T* const row = static_cast<T*>(r.rows) + line * r.depth;
    const int64_t first = group * ins, end = first + ins;
    for (int64_t run = first; run < end; run = p.run_end(run)) {
      const auto sample = sample_taps<Acc>(p, at, run / p.offset_channels(), tap);
      const int64_t run_end = p.run_end(run);
      for (int64_t c = run + int64_t{lane} * kCount; c < run_end; c += int64_t{lanes} * kCount) {
        store_elements(row + tap * ins + c - first, read_channels<T, kCount>(p, sample, c));
      }
    }
    if (tap == taps - 1) finish_row<T, Acc>(p, row, taps * ins, r.depth, lane, lanes);
  }
}

// Whether lanes can read `count` elements at once: runs of channels, and rows, begin where they lie
// on such a boundary.
bool reads_elements(const DeformRowsParams& r, int64_t count) {
  const DeformConvParams& p = r.conv;
  const int64_t sizes[] = {p.input_batch,      p.input_row,         p.input_column,
                           p.group_channels(), p.offset_channels(), r.depth};
  bool fits = p.input_channel == 1 && begins_wide(p.input) && begins_wide(r.rows);
  for (const int64_t size : sizes) fits = fits && size % count == 0;
  return fits;
}

template <class T>
void rows_as(const DeformRowsParams& r, Workspace& workspace) {
  constexpr int kCount = kWideCount<T>;
  const DeformConvParams& p = r.conv;
  const bool wide = reads_elements(r, kCount);
  const int64_t pieces = parts_of(p.group_channels(), wide ? kCount : 1);
  int lanes = 1;
  while (lanes < kWarpSize && lanes < pieces) lanes *= 2;
  const int64_t samples = p.groups * r.count * p.taps();
  launch(wide ? deform_conv2d_rows<T, kCount> : deform_conv2d_rows<T, 1>,
         grid_for(parts_of(samples, kThreads / lanes)), dim3(kThreads), 0, workspace.stream(), r,
         lanes, samples);
}

void deform_conv2d_rows_cuda(const DeformRowsParams& r, Workspace& workspace) {
  with_floating_type(r.conv.dtype, [&](auto* element) {
    rows_as<std::remove_pointer_t<decltype(element)>>(r, workspace);
  });
}

const bool registered = deform_conv2d_rows_stub.set(kCudaSlot, deform_conv2d_rows_cuda);

}  // namespace
}  // namespace visops
