// Targets that move from their own memory into other, as their image moves by plans in turn.
#pragma once

#include <vector>

#include "core/chain/plan.h"
#include "core/chain/targets.h"
#include "core/dispatch/threads.h"
#include "core/images/strided_data.h"

namespace visops {

// How a target moves.
struct TargetMove {
  double fill;       // of masks
  double shift;      // of key points' origin
  BoxFormat format;  // of boxes
  bool clips;        // whether boxes end with the image
};

// Whether a plan of one sample leaves its targets where they are.
bool is_still(const ChainPlan& plan);
bool are_still(const std::vector<const ChainPlan*>& plans);

// Moves boxes [N, 4], float32 or float64, into others.
void move_boxes(const TensorView& from, const TensorView& to,
                const std::vector<const ChainPlan*>& plans, const TargetMove& move);

// Moves points [..., 2 or 3], and says which are in sight. A third column, a visibility, becomes 0
// for points that are not.
void move_points(const TensorView& from, const TensorView& to, bool* seen,
                 const std::vector<const ChainPlan*>& plans, double shift);

struct MaskSize {
  int64_t height, width;
};

// Moves masks [N, H, W] by a 3 x 3 matrix into masks of the same dtype. `window` is what may be
// seen of them: x1, y1, x2, y2; null: all.
void move_masks(const StridedData& from, const StridedData& to, DType dtype, int64_t count,
                MaskSize size_in, MaskSize size_out, const double* matrix, const double* window,
                double fill, const Threads& threads);

// Moves masks [H, W] or [N, H, W] by a plan.
void move_masks(const TensorView& from, const TensorView& to, const ChainPlan& plan, double fill,
                const Threads& threads);

// Whether masks of a dtype move without torch, and it can hold this value.
bool holds(DType dtype, double fill);

// Whether boxes [N, 4] are finite and have sides of 0 or more, and some of them lie beyond the
// first pixel: they may be shares of the image's sides otherwise.
bool are_placed_boxes(const TensorView& boxes, BoxFormat format);

// Which boxes [N, 4] have sides and an area of at least these. Returns whether all have.
bool mark_large(const TensorView& boxes, BoxFormat format, double least_side, double least_area,
                bool* flags);

}  // namespace visops
