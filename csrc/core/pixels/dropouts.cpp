#include "core/pixels/dropouts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/philox.h"

namespace visops {
namespace {

struct Hole {
  int64_t left, top, right, bottom;
};

// What a hole is filled with.
enum class Filling { kValue, kPixels, kColors };

// Uniform numbers of an operation's key, one after another.
class Numbers {
 public:
  explicit Numbers(double key) : uniforms_(static_cast<uint64_t>(key * 0x1p53), 0, 0) {}

  double unit() { return uniforms_[position_++]; }
  // A whole number from low to high.
  int64_t whole(int64_t low, int64_t high) {
    const auto count = static_cast<double>(std::max<int64_t>(high - low, 0) + 1);
    return low + static_cast<int64_t>(unit() * count);
  }

 private:
  Uniforms uniforms_;
  int64_t position_ = 0;
};

template <class T>
T shade(Numbers& numbers) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<T>(numbers.whole(0, 255));
  } else {
    return static_cast<T>(numbers.unit());
  }
}

template <class T>
void fill_hole(const PixelImage& image, const Hole& hole, double value, Filling filling,
               Numbers& numbers) {
  const int64_t plane = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c) {
    const T color = filling == Filling::kColors ? shade<T>(numbers) : static_cast<T>(value);
    for (int64_t y = hole.top; y < hole.bottom; ++y) {
      T* const row = static_cast<T*>(image.data) + c * plane + y * image.width;
      if (filling == Filling::kPixels) {
        for (int64_t x = hole.left; x < hole.right; ++x) row[x] = shade<T>(numbers);
      } else {
        std::fill(row + hole.left, row + hole.right, color);
      }
    }
  }
}

void fill_holes(const PixelImage& image, const std::vector<Hole>& holes, double value,
                double filling, Numbers& numbers) {
  for (const Hole& hole : holes) {
    const auto how = static_cast<Filling>(filling);
    if (image.dtype == DType::kUInt8) {
      fill_hole<uint8_t>(image, hole, std::clamp(value, 0.0, 255.0), how, numbers);
    } else {
      fill_hole<float>(image, hole, value, how, numbers);
    }
  }
}

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

std::vector<Hole> random_holes(const double* more, const PixelImage& image, Numbers& numbers) {
  const int64_t count = numbers.whole(static_cast<int64_t>(more[1]), static_cast<int64_t>(more[2]));
  std::vector<Hole> holes;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t height = side_of_hole(numbers, more[3], more[4], image.height);
    const int64_t width = side_of_hole(numbers, more[5], more[6], image.width);
    const int64_t top = numbers.whole(0, image.height - height);
    const int64_t left = numbers.whole(0, image.width - width);
    holes.push_back({left, top, left + width, top + height});
  }
  return holes;
}

// Where cells that differ by one pixel at most begin, in a random order; and the end.
std::vector<int64_t> cells_of(int64_t side, int64_t count, Numbers& numbers) {
  std::vector<int64_t> sides(static_cast<size_t>(count), side / count);
  for (int64_t i = 0; i < side % count; ++i) ++sides[static_cast<size_t>(i)];
  for (size_t i = sides.size(); i > 1; --i) {
    std::swap(sides[i - 1],
              sides[static_cast<size_t>(numbers.whole(0, static_cast<int64_t>(i) - 1))]);
  }
  std::vector<int64_t> positions = {0};
  for (const int64_t own : sides) positions.push_back(positions.back() + own);
  return positions;
}

// How a grid's cells are given.
enum class Grid { kTenth, kUnits, kCount };

std::vector<Hole> grid_holes(const double* more, const PixelImage& image, Numbers& numbers) {
  const double ratio = more[1];
  const bool own_shifts = more[2] != 0.0;
  const auto a = static_cast<int64_t>(more[4]), b = static_cast<int64_t>(more[5]);
  int64_t rows = b, columns = a;
  switch (static_cast<Grid>(more[3])) {
    case Grid::kTenth:
      rows = image.height / std::max<int64_t>(2, image.height / 10);
      columns = image.width / std::max<int64_t>(2, image.width / 10);
      break;
    case Grid::kUnits: {
      const int64_t unit = numbers.whole(a, std::max(a, b - 1));
      rows = image.height / unit;
      columns = image.width / unit;
      break;
    }
    case Grid::kCount: break;
  }
  std::vector<Hole> holes;
  if (rows < 1 || columns < 1) return holes;
  const std::vector<int64_t> y = cells_of(image.height, rows, numbers);
  const std::vector<int64_t> x = cells_of(image.width, columns, numbers);
  const auto part = [ratio](int64_t side) {
    const double own = std::max(static_cast<double>(side) * ratio, 1.0);
    return std::max<int64_t>(static_cast<int64_t>(std::min(own, static_cast<double>(side) - 1.0)),
                             0);
  };
  for (size_t r = 0; r + 1 < y.size(); ++r) {
    for (size_t c = 0; c + 1 < x.size(); ++c) {
      const int64_t height = part(y[r + 1] - y[r]), width = part(x[c + 1] - x[c]);
      int64_t down = static_cast<int64_t>(more[7]), across = static_cast<int64_t>(more[6]);
      if (own_shifts) {
        down = numbers.whole(0, y[r + 1] - y[r] - height);
        across = numbers.whole(0, x[c + 1] - x[c] - width);
      }
      const int64_t top = std::clamp<int64_t>(y[r] + down, 0, image.height - height);
      const int64_t left = std::clamp<int64_t>(x[c] + across, 0, image.width - width);
      holes.push_back({left, top, left + width, top + height});
    }
  }
  return holes;
}

void drop_channels(const double* more, const PixelImage& image, double value, Numbers& numbers) {
  int64_t left = std::min(
      numbers.whole(static_cast<int64_t>(more[0]), static_cast<int64_t>(more[1])), image.channels);
  for (int64_t c = 0; c < image.channels && left > 0; ++c) {
    // Every set of channels is as likely as another.
    if (numbers.unit() * static_cast<double>(image.channels - c) >= static_cast<double>(left))
      continue;
    --left;
    PixelImage own = image;
    own.channels = 1;
    own.data =
        static_cast<char*>(image.data) + c * image.height * image.width * element_size(image.dtype);
    fill_holes(own, {{0, 0, image.width, image.height}}, value, 0.0, numbers);
  }
}

}  // namespace

bool run_dropout(const PixelOperation& operation, const PixelImage& image) {
  const double* const more = operation.more;
  switch (operation.kind) {
    case PixelKind::kDropChannels: {
      Numbers numbers(more[2]);
      drop_channels(more, image, operation.amount, numbers);
      return true;
    }
    case PixelKind::kHoles: {
      Numbers numbers(more[0]);
      fill_holes(image, random_holes(more, image, numbers), operation.amount, more[7], numbers);
      return true;
    }
    case PixelKind::kGridHoles: {
      Numbers numbers(more[0]);
      fill_holes(image, grid_holes(more, image, numbers), operation.amount, more[8], numbers);
      return true;
    }
    default: return false;
  }
}

}  // namespace visops
