#include "core/masks/contours.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace visops {
namespace {

// Neighbours of a pixel, counter-clockwise as one looks at it, from the right one.
constexpr int kAround = 8;
constexpr int kRight = 0, kLeft = 4;
constexpr int kX[kAround] = {1, 1, 0, -1, -1, -1, 0, 1};
constexpr int kY[kAround] = {0, -1, -1, -1, 0, 1, 1, 1};

int turned(int direction, int by) { return (direction + by) & (kAround - 1); }

// The first byte that is not 0.
const uint8_t* first_inside(const uint8_t* begin, const uint8_t* end) {
  uint64_t word = 0;
  while (end - begin >= 8) {
    std::memcpy(&word, begin, 8);
    if (word != 0) break;
    begin += 8;
  }
  return std::find_if(begin, end, [](uint8_t v) { return v != 0; });
}

// The last byte that is not 0; the first one, if all are.
const uint8_t* last_inside(const uint8_t* begin, const uint8_t* end) {
  uint64_t word = 0;
  while (end - begin >= 8) {
    std::memcpy(&word, end - 8, 8);
    if (word != 0) break;
    end -= 8;
  }
  while (end - begin > 1 && end[-1] == 0) --end;
  return end - 1;
}

// Part of a mask, with a rim of zeros, and what borders have passed.
class Tracer {
 public:
  Tracer(const uint8_t* mask, int64_t width, int64_t left, int64_t top, int64_t columns,
         int64_t rows, bool keeps_all, Contours* contours)
      : left_(left),
        top_(top),
        columns_(columns),
        rows_(rows),
        stride_(columns + 2),
        keeps_all_(keeps_all),
        inside_(static_cast<size_t>((rows + 2) * stride_), 0),
        labels_(static_cast<int32_t*>(std::calloc(inside_.size(), sizeof(int32_t)))),
        contours_(contours),
        first_(static_cast<int64_t>(contours->lengths.size())) {
    if (labels_ == nullptr) throw std::bad_alloc();
    for (int k = 0; k < kAround; ++k) step_[k] = kY[k] * stride_ + kX[k];
    for (int64_t y = 0; y < rows; ++y) {
      std::memcpy(&inside_[(y + 1) * stride_ + 1], mask + (top + y) * width + left, columns);
    }
  }

  // Looks at the ends of each row's runs. All borders that a run meets are of one region.
  void trace_all() {
    for (int64_t y = 1; y <= rows_; ++y) {
      const uint8_t* const row = &inside_[y * stride_];
      const uint8_t* const end = row + columns_ + 1;
      const uint8_t* begin = first_inside(row + 1, end);
      while (begin != end) {
        const auto* const after = static_cast<const uint8_t*>(
            std::memchr(begin, 0, static_cast<size_t>(end - begin) + 1));
        const int64_t x = begin - row, last = after - row - 1;
        const int64_t from = y * stride_ + x, to = y * stride_ + last;
        const bool is_new = labels_[from] == 0;
        if (is_new) {
          begin_border(-1);
          follow(x, y, kLeft);
        }
        if (labels_[to] >= 0 && !(is_new && from == to)) {
          const int32_t beside = labels_[to] > 0 ? labels_[to] : std::abs(labels_[from]);
          begin_border(contours_->regions[first_ + beside - 1]);
          follow(last, y, kRight);
        }
        begin = first_inside(after, end);
      }
    }
  }

 private:
  // Begins an outer border, if `region` is -1, or that of a hole in a region.
  void begin_border(int64_t region) {
    const auto number = static_cast<int64_t>(contours_->lengths.size());
    contours_->lengths.push_back(0);
    contours_->regions.push_back(region < 0 ? number : region);
  }

  void add(int64_t x, int64_t y) {
    contours_->points.push_back(static_cast<int32_t>(left_ + x - 1));
    contours_->points.push_back(static_cast<int32_t>(top_ + y - 1));
    ++contours_->lengths.back();
  }

  // Follows the border that has begun through a pixel whose neighbour in a direction is outside.
  void follow(int64_t x, int64_t y, int outside) {
    const auto label =
        static_cast<int32_t>(static_cast<int64_t>(contours_->lengths.size()) - first_);
    const int64_t start = y * stride_ + x;
    int back = outside;  // clockwise, the first neighbour that is inside
    do {
      back = turned(back, -1);
    } while (inside_[start + step_[back]] == 0 && back != outside);
    if (back == outside) {  // a lone pixel
      labels_[start] = -label;
      add(x, y);
      return;
    }
    const int64_t before_start = start + step_[back];
    int64_t pixel = start;
    int came = turned(back, kLeft);  // the direction of the last step
    while (true) {
      bool right_is_outside = false;
      int next = turned(back, 1);
      while (inside_[pixel + step_[next]] == 0) {
        right_is_outside = right_is_outside || next == kRight;
        next = turned(next, 1);
      }
      if (right_is_outside) {
        labels_[pixel] = -label;
      } else if (labels_[pixel] == 0) {
        labels_[pixel] = label;
      }
      if (keeps_all_ || next != came) add(x, y);
      came = next;
      const int64_t after = pixel + step_[next];
      x += kX[next];
      y += kY[next];
      if (after == start && pixel == before_start) return;
      pixel = after;
      back = turned(next, kLeft);
    }
  }

  struct Free {
    void operator()(int32_t* labels) const { std::free(labels); }
  };

  int64_t left_, top_, columns_, rows_, stride_;
  bool keeps_all_;
  std::vector<uint8_t> inside_;
  // 0, or the number of a border that has passed, from 1 on; negated, if the pixel to the right,
  // which is outside, was looked at. Zeroed pages that no border touches cost nothing.
  std::unique_ptr<int32_t[], Free> labels_;
  Contours* contours_;
  int64_t first_;  // borders of masks before
  int64_t step_[kAround];
};

}  // namespace

void find_contours(const uint8_t* mask, int64_t height, int64_t width, bool keeps_all,
                   Contours* contours) {
  // Only the box around what is inside is looked at twice.
  int64_t top = height, bottom = -1, left = width, right = -1;
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* const row = mask + y * width;
    const uint8_t* const end = row + width;
    const uint8_t* const first = first_inside(row, end);
    if (first == end) continue;
    const uint8_t* const last = last_inside(row + std::max<int64_t>(right, 0), end);
    top = std::min(top, y);
    bottom = y;
    left = std::min<int64_t>(left, first - row);
    right = std::max<int64_t>(right, last - row);
  }
  if (bottom < 0) return;
  Tracer(mask, width, left, top, right - left + 1, bottom - top + 1, keeps_all, contours)
      .trace_all();
}

}  // namespace visops
