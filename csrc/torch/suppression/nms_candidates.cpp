#include "torch/suppression/nms_candidates.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/suppression/score_order.h"

namespace visops {
namespace {

int64_t load_integer(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kInt64) return static_cast<const int64_t*>(data)[i];
  return static_cast<int64_t>(load_coordinate<double>(data, dtype, i));  // exact
}

class Lister {
 public:
  Lister(const NmsCall& call, CandidateOrder order)
      : call_(call), order_(order), group_size_(call.classes * call.per_image) {
    require(group_size_ <= std::numeric_limits<int32_t>::max(), call.op, "boxes has shape ",
            shape_text(call.boxes), ", more than 2^31 - 1 candidates in an image");
  }

  Candidates list() {
    Candidates found;
    found.image_begin.push_back(0);
    const bool grouped = call_.by_class || call_.ids.has_value();
    for (int64_t image = 0; image < call_.images; ++image) {
      switch (call_.params.score_dtype) {
        case DType::kFloat16: list_image<Half>(image, &keys_, &found); break;
        case DType::kBFloat16: list_image<BFloat16>(image, &keys_, &found); break;
        case DType::kFloat32: list_image<float>(image, &keys_, &found); break;
        default: list_image<double>(image, &wide_, &found); break;
      }
      const auto begin = found.image_begin.back();
      const auto end = static_cast<int64_t>(found.listed.size());
      found.image_begin.push_back(end);
      if (grouped) {
        group(image, begin, end, &found);
      } else {
        found.segment.resize(static_cast<size_t>(end), image);
      }
    }
    return found;
  }

 private:
  static void push(std::vector<uint64_t>* keys, float score, int64_t index) {
    keys->push_back(uint64_t{falling_key(score)} << 32 | static_cast<uint64_t>(index));
  }
  static void push(std::vector<WideKey>* keys, double score, int64_t index) {
    keys->push_back({falling_key(score), static_cast<uint32_t>(index)});
  }
  static int64_t index_of(uint64_t key) { return static_cast<int64_t>(key & 0xffffffffu); }
  static int64_t index_of(const WideKey& key) { return key.index; }

  template <class Stored, class Key>
  void list_image(int64_t image, std::vector<Key>* keys, Candidates* found) const {
    collect<Stored>(image, keys);
    if (order_ == CandidateOrder::kByScore) sort_keys(keys, call_.classes == 1);
    const size_t before = found->listed.size();
    found->listed.resize(before + keys->size());
    int64_t* to = found->listed.data() + before;
    for (const Key& key : *keys) *to++ = image * group_size_ + index_of(key);
  }

  template <class Stored, class Key>
  void collect(int64_t image, std::vector<Key>* keys) const {
    using Score = typename Accumulate<Stored>::type;
    const NmsParams& p = call_.params;
    const ValueStrides stride(call_, call_.scores);
    const auto* scores =
        static_cast<const Stored*>(call_.scores.const_data_ptr()) + image * stride.image;
    const auto least = static_cast<Score>(p.score_threshold);  // exact: rounded by the front
    keys->clear();
    if (!p.filtered) keys->reserve(static_cast<size_t>(group_size_));
    for (int64_t box = 0; box < call_.per_image; ++box) {
      for (int64_t c = 0; c < call_.classes; ++c) {
        const Score score = load_element(scores + box * stride.box + c * stride.in_class);
        if (p.filtered && !(score > least)) continue;
        if (call_.least_score && !(static_cast<double>(score) >= *call_.least_score)) continue;
        push(keys, score, c * call_.per_image + box);
      }
    }
  }

  // Numbers from 0 for the groups of candidates [begin, end), equal where they may meet.
  std::vector<int64_t> group_numbers(int64_t image, int64_t begin, int64_t end,
                                     const Candidates& found, int64_t* groups) const {
    std::vector<int64_t> number(static_cast<size_t>(end - begin));
    const auto local = [&](int64_t i) { return found.listed[i] - image * group_size_; };
    if (call_.by_class) {
      for (int64_t i = begin; i < end; ++i) number[i - begin] = local(i) / call_.per_image;
      *groups = call_.classes;
      return number;
    }
    const ValueStrides stride(call_, *call_.ids);
    const DType dtype = dtype_of(call_.op, "idxs", *call_.ids);
    const void* ids = call_.ids->const_data_ptr();
    for (int64_t i = begin; i < end; ++i) {
      number[i - begin] = load_integer(ids, dtype, image * stride.image + local(i) * stride.box);
    }
    if (number.empty()) return number;
    const auto [least, most] = std::minmax_element(number.begin(), number.end());
    const int64_t low = *least;
    const uint64_t range = static_cast<uint64_t>(*most) - static_cast<uint64_t>(low);
    if (range < number.size() * 4 + 1024) {
      *groups = static_cast<int64_t>(range) + 1;
      for (int64_t& n : number) n -= low;
      return number;
    }
    std::vector<int64_t> values = number;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (int64_t& n : number) {
      n = std::lower_bound(values.begin(), values.end(), n) - values.begin();
    }
    *groups = static_cast<int64_t>(values.size());
    return number;
  }

  // Candidates [begin, end) again, group by group.
  void group(int64_t image, int64_t begin, int64_t end, Candidates* found) {
    int64_t groups = 0;
    const std::vector<int64_t> number = group_numbers(image, begin, end, *found, &groups);
    std::vector<int64_t> next(static_cast<size_t>(groups) + 1);
    for (const int64_t n : number) ++next[n + 1];
    next[0] = begin;
    for (int64_t g = 0; g < groups; ++g) next[g + 1] += next[g];
    for (auto* list : {&found->order, &found->segment, &found->place}) {
      list->resize(static_cast<size_t>(end));
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = next[number[i - begin]]++;
      found->order[at] = found->listed[i];
      found->segment[at] = first_group_ + number[i - begin];
      found->place[i] = at;
    }
    first_group_ += groups;
  }

  const NmsCall& call_;
  const CandidateOrder order_;
  const int64_t group_size_;
  int64_t first_group_ = 0;
  std::vector<uint64_t> keys_;
  std::vector<WideKey> wide_;
};

}  // namespace

Candidates list_candidates(const NmsCall& call, CandidateOrder order) {
  return Lister(call, order).list();
}

}  // namespace visops
