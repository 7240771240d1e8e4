// The C interface through which ops/masks calls what works on runs on the host. Text and lists of
// numbers are no tensors, so this front goes past the dispatcher, and needs nothing of torch.
#include "core/masks/polygons.h"
#include "core/masks/rle_text.h"
#include "core/platform.h"

namespace {

int64_t report(const visops::RunFailure& failure, int64_t* entry_and_detail) {
  entry_and_detail[0] = failure.entry;
  entry_and_detail[1] = failure.detail;
  return static_cast<int64_t>(failure.error);
}

}  // namespace

extern "C" {

VISOPS_API void visops_write_run_text(const int32_t* ends, const int64_t* offsets, int64_t count,
                                      char* text, int64_t* text_offsets) {
  visops::write_run_text({ends, offsets, count}, text, text_offsets);
}

// A RunError, of the entry and with the detail that it writes.
VISOPS_API int64_t visops_read_run_text(const char* text, const int64_t* text_offsets,
                                        const int64_t* pixels, int64_t count, int32_t* ends,
                                        int64_t* offsets, int64_t* entry_and_detail) {
  return report(visops::read_run_text(text, text_offsets, pixels, count, ends, offsets),
                entry_and_detail);
}

VISOPS_API int64_t visops_read_run_counts(const int64_t* counts, const int64_t* offsets,
                                          const int64_t* pixels, int64_t count, int32_t* ends,
                                          int64_t* entry_and_detail) {
  return report(visops::read_run_counts(counts, offsets, pixels, count, ends), entry_and_detail);
}

VISOPS_API void visops_run_areas(const int32_t* ends, const int64_t* offsets, int64_t count,
                                 int64_t* areas) {
  visops::run_areas({ends, offsets, count}, areas);
}

// For csrc/numpy/rle.cpp, which finds them by name.
VISOPS_API bool visops_text_areas(const visops::RunTexts& texts, int64_t* areas) {
  return visops::text_areas(texts, areas);
}

VISOPS_API bool visops_text_overlaps(const visops::RunTexts& a, const visops::RunTexts& b,
                                     const uint8_t* crowd, int64_t height, double* overlaps) {
  return visops::text_overlaps(a, b, crowd, height, overlaps);
}

VISOPS_API void visops_run_overlaps(const int32_t* ends1, const int64_t* offsets1, int64_t count1,
                                    const int32_t* ends2, const int64_t* offsets2, int64_t count2,
                                    const uint8_t* crowd, int64_t height, double* overlaps) {
  visops::run_overlaps({ends1, offsets1, count1}, {ends2, offsets2, count2}, crowd, height,
                       overlaps);
}

VISOPS_API int64_t visops_most_polygon_runs(const double* points, const int64_t* point_offsets,
                                            const int64_t* polygon_offsets, int64_t objects,
                                            int64_t height, int64_t width) {
  return visops::most_polygon_runs(
      {points, point_offsets, polygon_offsets, objects, height, width});
}

VISOPS_API void visops_polygon_runs(const double* points, const int64_t* point_offsets,
                                    const int64_t* polygon_offsets, int64_t objects, int64_t height,
                                    int64_t width, int32_t* ends, int64_t* offsets) {
  visops::polygon_runs({points, point_offsets, polygon_offsets, objects, height, width}, ends,
                       offsets);
}

}  // extern "C"
