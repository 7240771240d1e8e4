// NOTE [ RoIAlign's gradient of maps on the CPU ]
// Vectors are channels, as in the forward (roi_align_kernel.cpp); the gradient of a box's bins is
// brought into lanes, and each row of pixels gets its part of the bins that read it. How work is
// cut: NOTE [ Bands ].
//
// Rounding: core/roi/align.h, without contraction.
#include "core/roi/tables.h"
#include "cpu/roi/bands.h"
#include "cpu/roi/sums.h"

namespace visops {
namespace {

template <class T, class Acc>
VISOPS_ALWAYS_INLINE void spread_boxes(const BandTask<Acc>& task, const Band<Acc>& band) {
  const RoiAlignParams& p = task.p;
  const auto* tables = static_cast<const RoiTable<Acc>*>(p.tables);
  for (int64_t i = p.map_begin[task.map_index]; i < p.map_begin[task.map_index + 1]; ++i) {
    const int64_t k = p.order[i];
    const RoiTable<Acc>& table = tables[k];
    int64_t first = 0;
    while (first < table.row_count && table.rows[first].pixel < band.begin) ++first;
    if (first == table.row_count || table.rows[first].pixel >= band.end) continue;
    load_bins<T>(p, k, task.channel, task.channels, task.room, p.block_channels);
    while (first < table.row_count && table.rows[first].pixel < band.end) {
      const int64_t pixel_row = table.rows[first].pixel;
      const RowEntries entries = entries_from(table, first);
      const int64_t next_row =
          entries.last < table.row_count && table.rows[entries.last].pixel < band.end
              ? (table.rows[entries.last].pixel - pixel_row) * band.row_stride
              : 0;
      Acc* row = band.data + (pixel_row - band.begin) * band.row_stride;
      for_each_lanes(task.channels, [&](auto n, int64_t c, int64_t count) {
        spread_row<n()>(table, entries, row + c, next_row, band.pixel_stride, count,
                        BinLanes<Acc>{task.room + c, p.block_channels, p.bins_x});
      });
      first = entries.last;
    }
  }
}

void roi_align_backward_input_kernel(const RoiAlignParams& p, int64_t begin, int64_t end) {
  sum_over_boxes(p, begin, end, [](auto* element, const auto& task, const auto& band) {
    spread_boxes<std::remove_pointer_t<decltype(element)>>(task, band);
  });
}

const bool registered =
    roi_align_backward_input_stub.set(kIsaSlot, roi_align_backward_input_kernel);

}  // namespace
}  // namespace visops
