// NOTE [ Rows of a deformable convolution on CUDA ]
// A part of a warp has the samples of an output pixel and a group. Each lane computes where one of
// them lies. For one sample after the other, it tells the others, and lanes read adjacent channels
// of its four pixels, 16 bytes each where they lie so, and write them side by side. torch
// multiplies the rows: csrc/torch/deformable/rows.h.
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

// A sample, as lane `source` of the `lanes` in `mask` knows it.
template <class Acc>
__device__ SampleTaps<Acc> sample_of_lane(unsigned mask, const SampleTaps<Acc>& own, int source,
                                          int lanes) {
  SampleTaps<Acc> sample;
  sample.taps = __shfl_sync(mask, own.taps, source, lanes);
  sample.first = __shfl_sync(mask, own.first, source, lanes);
  for (int i = 0; i < 4; ++i) {
    sample.weight[i] = __shfl_sync(mask, own.weight[i], source, lanes);
  }
  return sample;
}

// `lanes` threads have a row. Channels of an offset group are a run of the group's channels.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads, sizeof(typename Accumulate<T>::type) == 8 ? 2 : 3)
    deform_conv2d_rows(const __grid_constant__ DeformRowsParams r, const int lanes) {
  using Acc = typename Accumulate<T>::type;
  const DeformConvParams& p = r.conv;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  const unsigned mask = (lanes < kWarpSize ? (1u << lanes) - 1 : ~0u)
                        << (thread % kWarpSize - lane);
  const int64_t ins = p.group_channels(), of_offset = p.offset_channels();
  const int64_t step = int64_t{gridDim.x} * (kThreads / lanes), lines = p.groups * r.count;
  for (int64_t line = int64_t{blockIdx.x} * (kThreads / lanes) + thread / lanes; line < lines;
       line += step) {
    const int64_t group = line / r.count, pixel = line - group * r.count;
    const PixelAt at = pixel_at(p, r.first + pixel);
    T* const row = static_cast<T*>(r.rows) + line * r.depth;
    const int64_t first = group * ins, end = first + ins;
    const int64_t first_group = first / of_offset;
    const int64_t runs = (end - 1) / of_offset + 1 - first_group;
    const int64_t samples = p.taps() * runs;
    int64_t tap = 0, run = 0;
    for (int64_t done = 0; done < samples; done += lanes) {
      SampleTaps<Acc> own = {};
      const int64_t of_lane = done + lane;
      if (of_lane < samples) {
        const int64_t of_tap = of_lane / runs;
        own = sample_taps<Acc>(p, at, first_group + (of_lane - of_tap * runs), of_tap);
      }
      const int64_t left = samples - done;
      for (int j = 0; j < (left < lanes ? static_cast<int>(left) : lanes); ++j) {
        const SampleTaps<Acc> sample = sample_of_lane(mask, own, j, lanes);
        const int64_t begin = (first_group + run) * of_offset, after = begin + of_offset;
        const int64_t run_end = after < end ? after : end;
        const int64_t to = (tap * ins - first) / kCount;
        for (int64_t c = (begin > first ? begin : first) / kCount + lane; c < run_end / kCount;
             c += lanes) {
          store_elements(row, to + c, read_channels<T, kCount>(p, sample, c * kCount));
        }
        if (++run < runs) continue;
        run = 0;
        ++tap;
      }
    }
    finish_row<T, Acc>(p, row, p.taps() * ins, r.depth, lane, lanes);
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
  launch(wide ? deform_conv2d_rows<T, kCount> : deform_conv2d_rows<T, 1>,
         grid_for(parts_of(p.groups * r.count, kThreads / lanes)), dim3(kThreads), 0,
         workspace.stream(), r, lanes);
}

void deform_conv2d_rows_cuda(const DeformRowsParams& r, Workspace& workspace) {
  with_floating_type(r.conv.dtype, [&](auto* element) {
    rows_as<std::remove_pointer_t<decltype(element)>>(r, workspace);
  });
}

const bool registered = deform_conv2d_rows_stub.set(kCudaSlot, deform_conv2d_rows_cuda);

}  // namespace
}  // namespace visops
