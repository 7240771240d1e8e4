// NOTE [ RoIAlign's gradient of maps on the CPU ]
// Vectors are channels, as in the forward (align_kernel.cpp). The gradient of a box's bins is
// converted to a block of channels, and each row of pixels gets its share from the bins that read
// it. How work is split: NOTE [ Bands of gradients ].
//
// Rounding: core/roi/align.h, without contraction.
#include "cpu/roi/bands.h"
#include "cpu/roi/sums.h"

namespace visops {
namespace {

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void spread_boxes(const BandTask<Acc>& task, const Band<Acc>& band) {
  const RoiAlignParams& p = task.p;
  const int64_t pitch = task.plan.block_channels;
  const auto* tables = static_cast<const RoiTable<Acc>*>(task.plan.tables);
  task.for_each_box([&](int64_t k) {
    const RoiTable<Acc>& table = tables[k];
    int64_t first = 0;
    while (first < table.row_count && table.rows[first].pixel < band.begin) ++first;
    if (first == table.row_count || table.rows[first].pixel >= band.end) return;
    load_bins<T>(p, k, task.channel, task.channels, task.room, pitch);
    while (first < table.row_count && table.rows[first].pixel < band.end) {
      const int64_t pixel_row = table.rows[first].pixel;
      const RowEntries entries = entries_from(table, first);
      const int64_t next_row =
          entries.last < table.row_count && table.rows[entries.last].pixel < band.end
              ? (table.rows[entries.last].pixel - pixel_row) * band.row_stride
              : 0;
      Acc* row = band.data + (pixel_row - band.begin) * band.row_stride;
      for_channels(task.channels, [&](auto n, int64_t c, int64_t count) {
        spread_row<n()>(table, entries, row + c, next_row, band.pixel_stride, count,
                        BlockBins<Acc>{task.room + c, pitch, p.bins_x});
      });
      first = entries.last;
    }
  });
}

void sum_slices(const RoiAlignParams& p, const RoiPlan& plan, int64_t begin, int64_t end) {
  sum_over_boxes(p, plan, begin, end, [](auto* element, const auto& task, const auto& band) {
    spread_boxes<std::remove_pointer_t<decltype(element)>>(task, band);
  });
}

void roi_align_backward_input_kernel(const RoiAlignParams& p, Workspace& workspace) {
  run_over_gradient_blocks(p, workspace, sum_slices);
}

const bool registered =
    roi_align_backward_input_stub.set(kIsaSlot, roi_align_backward_input_kernel);

}  // namespace
}  // namespace visops
