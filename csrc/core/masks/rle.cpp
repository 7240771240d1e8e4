#include "core/masks/rle.h"

#include <algorithm>
#include <memory>

namespace visops {
namespace {

constexpr int kDigitBits = 5;
constexpr int64_t kMoreFollows = 32, kSign = 16;
constexpr char kZero = '0';
constexpr int kMostDigits = 12;  // 60 bits

// May write one character too many.
char* write_number(int64_t value, char* to) {
  if (value >= -512 &&
      value < 512) {  // most, of one or two characters: nothing could predict which
    const int64_t more = value < -16 || value > 15 ? 1 : 0;
    to[0] = static_cast<char>(kZero + (value & 31) + more * kMoreFollows);
    to[1] = static_cast<char>(kZero + (value >> kDigitBits & 31));
    return to + 1 + more;
  }
  for (bool more = true; more; ++to) {
    const int64_t digit = value & 31;
    value >>= kDigitBits;
    more = (digit & kSign) != 0 ? value != -1 : value != 0;
    *to = static_cast<char>(kZero + digit + (more ? kMoreFollows : 0));
  }
  return to;
}

// Counts of an entry as they arrive: the ends that they lead to.
class Ends {
 public:
  Ends(int64_t pixels, int32_t* to) : pixels_(pixels), to_(to) {}

  RunError add(int64_t count) {
    detail = count;
    if (count < 0) return RunError::kNegative;
    if (count > pixels_ - sum_) {
      detail = sum_ + std::min(count, int64_t{1} << 61);
      return RunError::kSum;
    }
    sum_ += count;
    *to_++ = static_cast<int32_t>(sum_);
    return RunError::kNone;
  }
  RunError finish() {
    detail = sum_;
    return sum_ == pixels_ ? RunError::kNone : RunError::kSum;
  }
  int32_t* to() const { return to_; }

  int64_t detail = 0;

 private:
  const int64_t pixels_;
  int64_t sum_ = 0;
  int32_t* to_;
};

// Reads a number and moves `*at` past it; `detail` is for what is wrong.
RunError read_number(const char* begin, const char* end, const char** at, int64_t* value,
                     int64_t* detail) {
  const char* const first = *at;
  int64_t digit = kMoreFollows;
  *value = 0;
  for (int digits = 0; (digit & kMoreFollows) != 0; ++digits, ++*at) {
    *detail = first - begin;
    if (*at == end) return RunError::kTruncated;
    if (digits == kMostDigits) return RunError::kLongNumber;
    *detail = *at - begin;
    digit = static_cast<int64_t>(**at) - kZero;
    if (digit < 0 || digit > 63) return RunError::kCharacter;
    *value |= (digit & 31) << (kDigitBits * digits);
  }
  const int64_t bits = kDigitBits * (*at - first);
  if ((digit & kSign) != 0) *value -= int64_t{1} << bits;
  return RunError::kNone;
}

RunError read_entry(const char* begin, const char* end, Ends* ends) {
  int64_t before[2] = {0, 0};  // the counts one and two before
  int64_t index = 0;
  for (const char* at = begin; at < end; ++index) {
    int64_t value = static_cast<int64_t>(*at) - kZero;
    if (value >= 0 && value < kMoreFollows) {  // most are of one character
      value = (value ^ kSign) - kSign;
      ++at;
    } else {
      const RunError error = read_number(begin, end, &at, &value, &ends->detail);
      if (error != RunError::kNone) return error;
    }
    if (index > 2) value += before[1];
    const RunError error = ends->add(value);
    if (error != RunError::kNone) return error;
    before[1] = before[0];
    before[0] = value;
  }
  return ends->finish();
}

// A mask's pixels as [begin, end) pairs, and where they lie.
struct Spans {
  const int32_t* ends;
  int64_t pairs, area;
  int64_t begin, end;  // of all
  int64_t y1, y2;      // rows

  int64_t begin_of(int64_t pair) const { return ends[2 * pair]; }
  int64_t end_of(int64_t pair) const { return ends[2 * pair + 1]; }
};

Spans spans_of(const RunLists& runs, int64_t i, int64_t height) {
  Spans s = {};
  s.ends = runs.ends + runs.offsets[i];
  s.pairs = (runs.offsets[i + 1] - runs.offsets[i]) / 2;
  s.y1 = height;
  for (int64_t pair = 0; pair < s.pairs; ++pair) {
    const int64_t begin = s.begin_of(pair), end = s.end_of(pair);
    if (begin == end) continue;
    if (s.area == 0) s.begin = begin;
    s.end = end;
    s.area += end - begin;
    const int64_t column = begin / height, below = end - column * height;
    s.y1 = std::min(s.y1, below > height ? int64_t{0} : begin - column * height);
    s.y2 = std::max(s.y2, below > height ? height : below);
  }
  return s;
}

// The first pair that ends beyond a position.
int64_t first_pair(const Spans& s, int64_t position) {
  int64_t low = 0, high = s.pairs;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (s.end_of(middle) > position) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

int64_t common_pixels(const Spans& a, const Spans& b) {
  if (a.area == 0 || b.area == 0 || a.y1 >= b.y2 || b.y1 >= a.y2) return 0;
  const int64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  if (begin >= end) return 0;
  int64_t common = 0, i = first_pair(a, begin), j = first_pair(b, begin);
  while (i < a.pairs && j < b.pairs) {
    const int64_t a_end = a.end_of(i), b_end = b.end_of(j);
    const int64_t low = std::max(a.begin_of(i), b.begin_of(j)), high = std::min(a_end, b_end);
    common += high > low ? high - low : 0;
    if (high >= end) break;
    // Without a branch, which nothing could predict.
    const int64_t next = a_end <= b_end ? 1 : 0;
    i += next;
    j += 1 - next;
  }
  return common;
}

// Runs read from texts.
class ReadRuns {
 public:
  explicit ReadRuns(const RunTexts& texts) : offsets_(static_cast<size_t>(texts.count) + 1) {
    std::vector<int64_t> begins = {0};
    for (int64_t i = 0; i < texts.count; ++i) begins.push_back(begins.back() + texts.lengths[i]);
    ends_.reset(new int32_t[static_cast<size_t>(begins.back())]);
    const RunFailure failure = read_run_text(texts.text, begins.data(), texts.pixels, texts.count,
                                             ends_.get(), offsets_.data());
    is_good_ = failure.error == RunError::kNone;
    runs_ = {ends_.get(), offsets_.data(), texts.count};
  }
  bool is_good() const { return is_good_; }
  const RunLists& runs() const { return runs_; }

 private:
  std::unique_ptr<int32_t[]> ends_;
  std::vector<int64_t> offsets_;
  RunLists runs_ = {};
  bool is_good_ = false;
};

}  // namespace

void write_run_text(const RunLists& runs, char* text, int64_t* text_offsets) {
  char* to = text;
  for (int64_t i = 0; i < runs.count; ++i) {
    text_offsets[i] = to - text;
    int64_t before[2] = {0, 0}, end = 0;  // the counts one and two before
    for (int64_t at = runs.offsets[i]; at < runs.offsets[i + 1]; ++at) {
      const int64_t count = runs.ends[at] - end;
      end = runs.ends[at];
      to = write_number(at - runs.offsets[i] > 2 ? count - before[1] : count, to);
      before[1] = before[0];
      before[0] = count;
    }
  }
  text_offsets[runs.count] = to - text;
}

RunFailure read_run_text(const char* text, const int64_t* text_offsets, const int64_t* pixels,
                         int64_t count, int32_t* ends, int64_t* offsets) {
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    Ends entry(pixels[i], ends + offsets[i]);
    const RunError error = read_entry(text + text_offsets[i], text + text_offsets[i + 1], &entry);
    if (error != RunError::kNone) return {error, i, entry.detail};
    offsets[i + 1] = entry.to() - ends;
  }
  return {RunError::kNone, 0, 0};
}

RunFailure read_run_counts(const int64_t* counts, const int64_t* offsets, const int64_t* pixels,
                           int64_t count, int32_t* ends) {
  for (int64_t i = 0; i < count; ++i) {
    Ends entry(pixels[i], ends + offsets[i]);
    RunError error = RunError::kNone;
    for (int64_t at = offsets[i]; at < offsets[i + 1] && error == RunError::kNone; ++at) {
      error = entry.add(counts[at]);
    }
    if (error == RunError::kNone) error = entry.finish();
    if (error != RunError::kNone) return {error, i, entry.detail};
  }
  return {RunError::kNone, 0, 0};
}

void run_areas(const RunLists& runs, int64_t* areas) {
  for (int64_t i = 0; i < runs.count; ++i) {
    areas[i] = 0;
    for (int64_t at = runs.offsets[i] + 1; at < runs.offsets[i + 1]; at += 2) {
      areas[i] += runs.ends[at] - runs.ends[at - 1];
    }
  }
}

void run_overlaps(const RunLists& a, const RunLists& b, const uint8_t* crowd, int64_t height,
                  double* overlaps) {
  std::vector<Spans> others;
  for (int64_t j = 0; j < b.count; ++j) others.push_back(spans_of(b, j, height));
  for (int64_t i = 0; i < a.count; ++i) {
    const Spans one = spans_of(a, i, height);
    for (int64_t j = 0; j < b.count; ++j) {
      const Spans& other = others[static_cast<size_t>(j)];
      const int64_t common = common_pixels(one, other);
      const bool is_crowd = crowd != nullptr && crowd[j] != 0;
      const int64_t all = one.area + (is_crowd ? 0 : other.area - common);
      overlaps[i * b.count + j] =
          common == 0 ? 0.0 : static_cast<double>(common) / static_cast<double>(all);
    }
  }
}

bool text_areas(const RunTexts& texts, int64_t* areas) {
  const ReadRuns read(texts);
  if (read.is_good()) run_areas(read.runs(), areas);
  return read.is_good();
}

bool text_overlaps(const RunTexts& a, const RunTexts& b, const uint8_t* crowd, int64_t height,
                   double* overlaps) {
  const ReadRuns first(a);
  if (!first.is_good()) return false;
  if (b.text == a.text && b.lengths == a.lengths && b.pixels == a.pixels && b.count == a.count) {
    run_overlaps(first.runs(), first.runs(), crowd, height, overlaps);
    return true;
  }
  const ReadRuns second(b);
  if (second.is_good()) run_overlaps(first.runs(), second.runs(), crowd, height, overlaps);
  return second.is_good();
}

}  // namespace visops
