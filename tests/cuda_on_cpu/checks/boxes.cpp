// Lets tests give kernels the boxes that fronts throw for on the CPU. Boxes of a CUDA tensor can't
// be checked without waiting for the device, so there kernels see them: NOTE [ Boxes that are not
// valid ].
//
// The library is linked with --wrap for these functions of csrc/core/roi.
#include "core/roi/align.h"
#include "core/roi/crops.h"

namespace {

bool passes = false;

}  // namespace

// Fronts throw for no boxes from here on, or for those they should.
extern "C" VISOPS_API void visops_pass_boxes(int is_on) { passes = is_on != 0; }

extern "C" {

void __real__ZN6visops10check_roisEPKcS1_RKNS_14RoiAlignParamsE(const char* op, const char* name,
                                                                const visops::RoiAlignParams& p);
void __wrap__ZN6visops10check_roisEPKcS1_RKNS_14RoiAlignParamsE(const char* op, const char* name,
                                                                const visops::RoiAlignParams& p) {
  if (!passes) __real__ZN6visops10check_roisEPKcS1_RKNS_14RoiAlignParamsE(op, name, p);
}

void __real__ZN6visops16check_crop_boxesEPKcRKNS_9CropBoxesEl(const char* op,
                                                              const visops::CropBoxes& boxes,
                                                              int64_t batch);
void __wrap__ZN6visops16check_crop_boxesEPKcRKNS_9CropBoxesEl(const char* op,
                                                              const visops::CropBoxes& boxes,
                                                              int64_t batch) {
  if (!passes) __real__ZN6visops16check_crop_boxesEPKcRKNS_9CropBoxesEl(op, boxes, batch);
}

}  // extern "C"
