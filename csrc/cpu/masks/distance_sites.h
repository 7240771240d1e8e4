// NOTE [ Sites of the chessboard ] (core/masks/distance_chessboard.h) on the CPU.
#pragma once

#include <cstdint>

#include "core/masks/distance_chessboard.h"
#include "cpu/masks/distance_across.h"

namespace visops {
namespace {

// Distances of one mask at a time: along rows, then within planes, then in all. `slots` masks are
// worked on at once.
class ChessboardSites {
 public:
  using Room = AcrossRoom<int32_t>;

  ChessboardSites(const DistanceParams& p, int64_t tasks, int64_t slots, Workspace& workspace)
      : p_(p), pixels_(pixels_of(p)), blocks_((p.width + kBlock - 1) / kBlock) {
    longest_ = p.depth > p.height ? p.depth : p.height;
    numbers_ = across_numbers(longest_, p.width);
    room_ = allocate_across<int32_t>(workspace, tasks, numbers_, longest_, false);
    along_ = allocate<int32_t>(workspace, slots * pixels_);
    within_ = p.dims == 3 ? allocate<int32_t>(workspace, slots * pixels_) : nullptr;
    of_rows_ = allocate_levels(along_, p.depth, p.height, p.width, slots, workspace);
    if (p.dims == 3) {
      of_planes_ = allocate_levels(within_, 1, p.depth, p.height * p.width, slots, workspace);
    }
  }

  // share(count, body) calls body(task, begin, end) for parts of `count` items.
  template <class Share>
  void find(int64_t mask, int64_t slot, const Share& share) const {
    const int64_t rows = p_.depth * p_.height;
    share(rows, [&](int64_t, int64_t begin, int64_t end) { along_rows(mask, slot, begin, end); });
    fill(of_rows_, slot, p_.depth, share);
    share(p_.depth * blocks_, [&](int64_t task, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t z = i / blocks_, x = i % blocks_ * kBlock;
        across(mask, slot, task, z * p_.height * p_.width + x, x, p_.height, p_.width, false);
      }
    });
    if (p_.dims == 3) {
      fill(of_planes_, slot, 1, share);
      share(p_.height * blocks_, [&](int64_t task, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t y = i / blocks_, x = i % blocks_ * kBlock;
          across(mask, slot, task, y * p_.width + x, x, p_.depth, p_.height * p_.width, true);
        }
      });
    }
    const ChessboardTrees trees = {tree_at(of_rows_, slot, p_.depth),
                                   p_.dims == 3 ? tree_at(of_planes_, slot, 1) : LeastTree{}};
    share(rows, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto z = static_cast<int32_t>(row / p_.height);
        const auto y = static_cast<int32_t>(row - z * p_.height);
        for (int32_t x = 0; x < p_.width; ++x) {
          const int64_t at = row * p_.width + x;
          const float distance = p_.distances[mask * pixels_ + at];
          store_index(p_, mask, at, chessboard_site(p_, trees, 0, {z, y, x}, distance));
        }
      }
    });
  }

 private:
  // The trees of all slots, one slot after another in each level.
  struct Levels {
    LeastTree tree;
    int32_t* least[LeastTree::kLevels];
  };

  static Levels allocate_levels(int32_t* distances, int64_t outer, int64_t size, int64_t inner,
                                int64_t slots, Workspace& workspace) {
    Levels levels = {tree_of(distances, size, inner), {distances}};
    for (int l = 1; l < levels.tree.levels; ++l) {
      levels.least[l] = allocate<int32_t>(workspace, slots * outer * levels.tree.size[l] * inner);
    }
    return levels;
  }

  LeastTree tree_at(const Levels& levels, int64_t slot, int64_t outer) const {
    LeastTree tree = levels.tree;
    for (int l = 0; l < tree.levels; ++l) {
      tree.least[l] = levels.least[l] + slot * outer * tree.size[l] * tree.inner;
    }
    return tree;
  }

  template <class Share>
  void fill(const Levels& levels, int64_t slot, int64_t outer, const Share& share) const {
    const LeastTree tree = tree_at(levels, slot, outer);
    for (int l = 1; l < tree.levels; ++l) {
      int32_t* least = levels.least[l] + slot * outer * tree.size[l] * tree.inner;
      share(outer * tree.size[l], [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t at = 0; at < tree.inner; ++at) {
            least[i * tree.inner + at] = least_of_children(tree, l - 1, i, at);
          }
        }
      });
    }
  }

  void along_rows(int64_t mask, int64_t slot, int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* pixels = p_.masks + mask * pixels_ + row * p_.width;
      int32_t* along = along_ + slot * pixels_ + row * p_.width;
      int32_t distance = kFar;
      for (int64_t x = 0; x < p_.width; ++x) {
        distance = pixels[x] == 0 ? 0 : distance < kFar ? distance + 1 : kFar;
        along[x] = distance;
      }
      distance = kFar;
      for (int64_t x = p_.width - 1; x >= 0; --x) {
        distance = distance < kFar ? distance + 1 : kFar;
        distance = along[x] < distance ? along[x] : distance;
        along[x] = distance;
      }
    }
  }

  // From columns [x, x + kBlock) of the lines that begin at `first`; is_last: the distances in all.
  void across(int64_t mask, int64_t slot, int64_t task, int64_t first, int64_t x, int64_t size,
              int64_t stride, bool is_last) const {
    int32_t* near = (is_last ? within_ : along_) + slot * pixels_ + first;
    int32_t* within = p_.dims == 3 ? within_ + slot * pixels_ + first : nullptr;
    float* found = p_.distances + mask * pixels_ + first;
    const bool is_final = is_last || p_.dims == 2;
    const Room room = {room_.lines + task * numbers_, nullptr,
                       room_.of_lines + task * 2 * longest_};
    pass_across<Metric::kChessboard, int32_t, false>(
        {near, nullptr, stride}, size, p_.width - x < kBlock ? p_.width - x : kBlock, 1, room,
        [&](int64_t k, int64_t i, int32_t distance, int32_t) {
          if (is_final) {
            found[k * stride + i] = final_distance(p_, Metric::kChessboard, distance);
          } else {
            within[k * stride + i] = distance;
          }
        });
  }

  const DistanceParams& p_;
  int64_t pixels_, blocks_, longest_, numbers_;
  Room room_;
  int32_t* along_;   // [slots, pixels]
  int32_t* within_;  // likewise
  Levels of_rows_, of_planes_ = {};
};

}  // namespace
}  // namespace visops
