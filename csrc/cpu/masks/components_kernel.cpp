// Connected components on the CPU: NOTE [ Components on the CPU ].
#include "core/masks/components.h"

#include "cpu/masks/forest.h"
#include "cpu/simd/vector.h"

namespace visops {
namespace {

using Labels = Vector<uint32_t>;

// labels[begin, end) = value; may write beyond `end`, but not beyond `width`.
VISOPS_ALWAYS_INLINE void fill_run(int32_t* labels, int64_t begin, int64_t end, int64_t width,
                                   int32_t value) {
  const Labels values = broadcast(static_cast<uint32_t>(value));
  for (; begin < end && begin + Labels::kCount <= width; begin += Labels::kCount) {
    store_vector(reinterpret_cast<uint32_t*>(labels + begin), values);
  }
  for (; begin < end; ++begin) labels[begin] = value;
}

// Writes rows [begin, end) of a numbered image. What a run writes too far, the next one replaces.
void write_rows(const Forest& forest, int64_t begin, int64_t end, int64_t width, int32_t* labels) {
  for (int64_t y = begin; y < end; ++y) {
    int32_t* row = labels + y * width;
    int64_t at = 0;
    for (int32_t run = forest.rows[y].begin; run < forest.rows[y].end; ++run) {
      const int32_t first = forest.edges[2 * run], past = forest.edges[2 * run + 1];
      fill_run(row, at, first, width, 0);
      fill_run(row, first, past, width, forest.links[run]);
      at = past;
    }
    fill_run(row, at, width, width, 0);
  }
}

template <class Rows>
void label_masks(const ComponentsParams& p, Workspace& workspace) {
  const int64_t pixels = p.height * p.width;
  const int32_t reach = p.diagonal ? 1 : 0;
  const auto image = [&](int64_t i) {
    return Rows{static_cast<const typename Rows::Pixel*>(p.masks) + i * pixels, p.width};
  };
  const int64_t most = image(0).most(), bytes = Forest::bytes(p.height, most);
  const Bands bands = {p.height, mask_bands(p.count, p.height, p.width, workspace)};
  if (bands.bands > 1) {
    const Forest forest = Forest::at(allocate<char>(workspace, bytes), p.height, most);
    for (int64_t i = 0; i < p.count; ++i) {
      p.found[i] = number_in_bands(forest, image(i), bands, reach, workspace);
      parallel_for(workspace, bands.bands, 1, [&](int64_t first, int64_t last) {
        write_rows(forest, bands.begin(first), bands.begin(last), p.width, p.labels + i * pixels);
      });
    }
    return;
  }
  const int64_t tasks = mask_tasks(p.count, p.height, p.width, workspace);
  char* memory = allocate<char>(workspace, bytes * tasks);
  for_each_task(p.count, tasks, workspace, [&](int64_t task, int64_t begin, int64_t end) {
    const Forest forest = Forest::at(memory + task * bytes, p.height, most);
    for (int64_t i = begin; i < end; ++i) {
      scan_rows(forest, image(i), 0, p.height, reach);
      p.found[i] = number_rows(forest, 0, p.height, 0);
      write_rows(forest, 0, p.height, p.width, p.labels + i * pixels);
    }
  });
}

void components_kernel(const ComponentsParams& p, Workspace& workspace) {
  switch (element_size(p.dtype)) {
    case 1:
      return p.dtype == DType::kBool ? label_masks<MaskRows>(p, workspace)
                                     : label_masks<LabelRows<uint8_t>>(p, workspace);
    case 2: return label_masks<LabelRows<uint16_t>>(p, workspace);
    case 4: return label_masks<LabelRows<uint32_t>>(p, workspace);
    default: return label_masks<LabelRows<uint64_t>>(p, workspace);
  }
}

const bool registered = components_stub.set(kIsaSlot, components_kernel);

}  // namespace
}  // namespace visops
