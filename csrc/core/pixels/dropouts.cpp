#include "core/pixels/dropouts.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/check.h"

namespace visops {
namespace {

constexpr int64_t kMostSide = int64_t{1} << 31;  // holes have 32 bits for it

// Uniform numbers of an operation's key, one after another.
class Numbers {
 public:
  explicit Numbers(uint64_t key) : uniforms_(key, 0, 0) {}

  double unit() { return uniforms_[position_++]; }
  int64_t whole(int64_t low, int64_t high) { return whole_between(unit(), low, high); }
  int64_t position() const { return position_; }

 private:
  Uniforms uniforms_;
  int64_t position_ = 0;
};

struct ImageSize {
  int64_t channels, height, width;
};

// A side within limits, which are shares of the image's side where the upper one is below 1.
int64_t side_of_hole(Numbers& numbers, double low, double high, int64_t side) {
  if (high < 1.0) {
    const double share = low + numbers.unit() * (high - low);
    return static_cast<int64_t>(static_cast<double>(side) * share);
  }
  const auto most = static_cast<int64_t>(std::min(high, static_cast<double>(side)));
  const auto least = std::min(static_cast<int64_t>(low), most);
  return numbers.whole(least, most);
}

Hole hole_at(int64_t left, int64_t top, int64_t width, int64_t height, int64_t channel,
             int64_t channels) {
  const auto number = [](int64_t value) { return static_cast<int32_t>(value); };
  return {number(left),
          number(top),
          number(width),
          number(height),
          number(channel),
          number(channels),
          0};
}

void add_random_holes(const double* more, const ImageSize& size, Numbers& numbers, Dropout& out) {
  const int64_t count = numbers.whole(static_cast<int64_t>(more[1]), static_cast<int64_t>(more[2]));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t height = side_of_hole(numbers, more[3], more[4], size.height);
    const int64_t width = side_of_hole(numbers, more[5], more[6], size.width);
    const int64_t top = numbers.whole(0, size.height - height);
    const int64_t left = numbers.whole(0, size.width - width);
    out.holes.push_back(hole_at(left, top, width, height, 0, size.channels));
  }
  int64_t number = numbers.position();
  for (Hole& hole : out.holes) {
    hole.number = number;
    number += hole.channels * (out.filling == Filling::kPixels ? hole.area() : 1);
  }
  out.overlap = count > 1;
}

// Adds cells that differ by one pixel at most, in a random order. Returns the sum of their holes'
// sides.
int64_t add_cells(int64_t side, int64_t count, double ratio, Numbers& numbers,
                  std::vector<GridCell>& cells) {
  std::vector<int64_t> sides(static_cast<size_t>(count), side / count);
  for (int64_t i = 0; i < side % count; ++i) ++sides[static_cast<size_t>(i)];
  for (size_t i = sides.size(); i > 1; --i) {
    std::swap(sides[i - 1],
              sides[static_cast<size_t>(numbers.whole(0, static_cast<int64_t>(i) - 1))]);
  }
  int64_t begin = 0, before = 0;
  for (const int64_t own : sides) {
    const double share = std::max(static_cast<double>(own) * ratio, 1.0);
    const auto hole =
        std::max<int64_t>(static_cast<int64_t>(std::min(share, static_cast<double>(own) - 1.0)), 0);
    cells.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(own),
                     static_cast<int32_t>(hole), static_cast<int32_t>(before)});
    begin += own;
    before += hole;
  }
  return before;
}

// Whether holes along a side overlap, all being shifted by the same pixels.
bool cells_overlap(const GridCell* cells, int32_t count, int64_t shift, int32_t size) {
  for (int32_t i = 0; i + 1 < count; ++i) {
    const int32_t end = hole_begin(cells[i], shift, size) + cells[i].hole;
    if (end > hole_begin(cells[i + 1], shift, size)) return true;
  }
  return false;
}

// How a grid's cells are given.
enum class Grid { kTenth, kUnits, kCount };

void add_grid(const double* more, const ImageSize& size, Numbers& numbers, Dropout& out) {
  const double ratio = more[1];
  const auto a = static_cast<int64_t>(more[4]), b = static_cast<int64_t>(more[5]);
  int64_t rows = b, columns = a;
  switch (static_cast<Grid>(more[3])) {
    case Grid::kTenth:
      rows = size.height / std::max<int64_t>(2, size.height / 10);
      columns = size.width / std::max<int64_t>(2, size.width / 10);
      break;
    case Grid::kUnits: {
      const int64_t unit = numbers.whole(a, std::max(a, b - 1));
      rows = size.height / unit;
      columns = size.width / unit;
      break;
    }
    case Grid::kCount: break;
  }
  if (rows < 1 || columns < 1) return;
  HoleGrid& grid = out.grid;
  add_cells(size.height, rows, ratio, numbers, out.cells);
  grid.holes_width = add_cells(size.width, columns, ratio, numbers, out.cells);
  grid.rows = static_cast<int32_t>(rows);
  grid.columns = static_cast<int32_t>(columns);
  grid.height = static_cast<int32_t>(size.height);
  grid.width = static_cast<int32_t>(size.width);
  grid.channels = static_cast<int32_t>(size.channels);
  grid.own_shifts = more[2] != 0.0;
  grid.down = static_cast<int64_t>(more[7]);
  grid.across = static_cast<int64_t>(more[6]);
  grid.first = numbers.position();
  grid.filled = grid.first + (grid.own_shifts ? 2 * grid.count() : 0);
  grid.filling = out.filling;
  const GridCell* const cells = out.cells.data();
  out.overlap =
      !grid.own_shifts && (cells_overlap(cells, grid.rows, grid.down, grid.height) ||
                           cells_overlap(cells + grid.rows, grid.columns, grid.across, grid.width));
}

void add_channels(const double* more, const ImageSize& size, Numbers& numbers, Dropout& out) {
  int64_t left = std::min(
      numbers.whole(static_cast<int64_t>(more[0]), static_cast<int64_t>(more[1])), size.channels);
  for (int64_t c = 0; c < size.channels && left > 0; ++c) {
    // Every set of channels is as likely as another.
    if (numbers.unit() * static_cast<double>(size.channels - c) >= static_cast<double>(left))
      continue;
    --left;
    out.holes.push_back(hole_at(0, 0, size.width, size.height, c, 1));
  }
}

template <class T>
void fill_hole(const PixelImage& image, const Dropout& dropout, const Hole& hole) {
  Uniforms uniforms(dropout.key, 0, 0);
  int64_t number = hole.number;
  for (int64_t c = hole.channel; c < hole.channel + hole.channels; ++c) {
    T* row = static_cast<T*>(image.data) + (c * image.height + hole.top) * image.width + hole.left;
    if (dropout.filling == Filling::kPixels) {
      for (int64_t y = 0; y < hole.height; ++y, row += image.width) {
        for (int64_t x = 0; x < hole.width; ++x) row[x] = random_shade<T>(uniforms.bits(number++));
      }
      continue;
    }
    const T color = dropout.filling == Filling::kColors ? random_shade<T>(uniforms.bits(number++))
                                                        : static_cast<T>(dropout.value);
    for (int64_t y = 0; y < hole.height; ++y, row += image.width) {
      std::fill_n(row, hole.width, color);
    }
  }
}

template <class T>
void fill_holes(const PixelImage& image, const Dropout& dropout) {
  for (int64_t i = 0; i < dropout.count(); ++i) {
    const bool listed = dropout.cells.empty();
    fill_hole<T>(image, dropout,
                 listed ? dropout.holes[static_cast<size_t>(i)]
                        : grid_hole(dropout.grid, dropout.cells.data(), dropout.key, i));
  }
}

}  // namespace

Dropout dropout_of(const PixelOperation& operation, DType dtype, int64_t channels, int64_t height,
                   int64_t width) {
  const double* const more = operation.more;
  const ImageSize size = {channels, height, width};
  const bool bytes = dtype == DType::kUInt8;
  Dropout out;
  out.value = bytes ? std::clamp(operation.amount, 0.0, 255.0) : operation.amount;
  const auto begin = [&](double key, double filling) {
    out.key = key_of(key);
    out.filling = static_cast<Filling>(filling);
    return Numbers(out.key);
  };
  if (operation.kind == PixelKind::kDropChannels) {
    Numbers numbers = begin(more[2], 0.0);
    add_channels(more, size, numbers, out);
  } else if (operation.kind == PixelKind::kHoles) {
    Numbers numbers = begin(more[0], more[7]);
    add_random_holes(more, size, numbers, out);
  } else {
    Numbers numbers = begin(more[0], more[8]);
    add_grid(more, size, numbers, out);
  }
  return out;
}

bool run_dropout(const PixelOperation& operation, const PixelImage& image) {
  if (!is_dropout(operation.kind)) return false;
  require(image.height < kMostSide && image.width < kMostSide && image.channels < kMostSide,
          "transforms", "images have ", image.height, " rows, ", image.width, " columns and ",
          image.channels, " channels, must have less than 2^31 for a dropout");
  const Dropout dropout =
      dropout_of(operation, image.dtype, image.channels, image.height, image.width);
  if (image.dtype == DType::kUInt8) {
    fill_holes<uint8_t>(image, dropout);
  } else {
    fill_holes<float>(image, dropout);
  }
  return true;
}

}  // namespace visops
