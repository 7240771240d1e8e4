#include "torch/suppression/nms.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/suppression/nms.h"

namespace visops {
namespace {

int64_t load_integer(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kInt64) return static_cast<const int64_t*>(data)[i];
  return static_cast<int64_t>(load_coordinate<double>(data, dtype, i));  // exact
}

// Within a group: best first, or by number.
enum class CandidateOrder { kByScore, kByNumber };

class CandidateLister {
 public:
  CandidateLister(const NmsCall& call, CandidateOrder order, std::optional<double> min_score)
      : call_(call),
        order_(order),
        min_score_(min_score),
        group_size_(call.classes * call.per_image) {
    require(group_size_ <= std::numeric_limits<int32_t>::max(), call.op, "boxes has shape ",
            shape_text(call.boxes), ", more than 2^31 - 1 candidates in an image");
  }

  Candidates list() {
    Candidates found;
    found.image_begin.push_back(0);
    const bool grouped = call_.by_class || call_.ids.has_value();
    for (int64_t image = 0; image < call_.images; ++image) {
      switch (call_.score_dtype) {
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
    const ValueStrides stride(call_, call_.scores);
    const auto* scores =
        static_cast<const Stored*>(call_.scores.const_data_ptr()) + image * stride.image;
    const bool filtered = call_.score_threshold.has_value();
    const auto threshold = static_cast<Score>(call_.score_threshold.value_or(0.0));  // exact
    keys->clear();
    if (!filtered) keys->reserve(static_cast<size_t>(group_size_));
    for (int64_t box = 0; box < call_.per_image; ++box) {
      for (int64_t c = 0; c < call_.classes; ++c) {
        const Score score = load_element(scores + box * stride.box + c * stride.in_class);
        if (filtered && !(score > threshold)) continue;
        if (min_score_ && !(static_cast<double>(score) >= *min_score_)) continue;
        push(keys, score, c * call_.per_image + box);
      }
    }
  }

  // The group of each of the candidates [begin, end), numbered from 0 to *groups.
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

  // Orders the candidates [begin, end) group by group.
  void group(int64_t image, int64_t begin, int64_t end, Candidates* found) {
    int64_t groups = 0;
    const std::vector<int64_t> number = group_numbers(image, begin, end, *found, &groups);
    std::vector<int64_t> next(static_cast<size_t>(groups) + 1);
    for (const int64_t n : number) ++next[n + 1];
    next[0] = begin;
    for (int64_t g = 0; g < groups; ++g) next[g + 1] += next[g];
    for (auto* list : {&found->order, &found->segment, &found->slot}) {
      list->resize(static_cast<size_t>(end));
    }
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = next[number[i - begin]]++;
      found->order[at] = found->listed[i];
      found->segment[at] = first_group_ + number[i - begin];
      found->slot[i] = at;
    }
    first_group_ += groups;
  }

  const NmsCall& call_;
  const CandidateOrder order_;
  const std::optional<double> min_score_;
  const int64_t group_size_;
  int64_t first_group_ = 0;
  std::vector<uint64_t> keys_;
  std::vector<WideKey> wide_;
};

struct Kept {
  Candidates candidates;
  std::vector<int64_t> positions;  // in candidates.listed, image by image
};

// Runs the kernel; returns a flag for each candidate in its order.
Tensor flags_of(const NmsCall& call, const Candidates& found) {
  NmsParams p = call.params;
  found.set_in(&p);
  const Tensor flags = empty_tensor(call.op, "scratch", call.boxes, {p.count}, DType::kUInt8);
  p.kept = static_cast<uint8_t*>(flags.mutable_data_ptr());
  call.run_kernel(p);
  return flags;
}

Kept keep_candidates(const NmsCall& call) {
  Kept kept;
  kept.candidates = list_by_score(call);
  const Candidates& found = kept.candidates;
  const Tensor flags = flags_of(call, found);
  const auto* is_kept = static_cast<const uint8_t*>(flags.const_data_ptr());
  const int64_t most = call.params.max_output;
  for (int64_t image = 0; image < call.images; ++image) {
    int64_t left = most < 0 ? static_cast<int64_t>(found.listed.size()) : most;
    for (int64_t i = found.image_begin[image]; i < found.image_begin[image + 1] && left > 0; ++i) {
      if (is_kept[found.slot.empty() ? i : found.slot[i]] == 0) continue;
      kept.positions.push_back(i);
      --left;
    }
  }
  return kept;
}

}  // namespace

Candidates list_by_score(const NmsCall& call) {
  return CandidateLister(call, CandidateOrder::kByScore, std::nullopt).list();
}

Candidates list_by_number(const NmsCall& call, double min_score) {
  return CandidateLister(call, CandidateOrder::kByNumber, min_score).list();
}

Tensor nms_on_host(const NmsCall& call) {
  const Kept kept = keep_candidates(call);
  const std::vector<int64_t> shape = call.result_shape(static_cast<int64_t>(kept.positions.size()));
  const Tensor result = empty_tensor(call.op, "result", call.boxes, shape, DType::kInt64);
  auto* out = static_cast<int64_t*>(result.mutable_data_ptr());
  for (const int64_t position : kept.positions) {
    out = call.write_row(kept.candidates.listed[position], out);
  }
  return result;
}

PaddedResult nms_padded_on_host(const NmsCall& call) {
  const PaddedResult result = empty_padded_result(call);  // first, to fail early
  const Candidates found = list_by_score(call);
  const Tensor kept = flags_of(call, found);
  NmsPadParams p = padding_of(call, result);
  p.candidates = found.listed.data();
  p.kept = static_cast<const uint8_t*>(kept.const_data_ptr());
  p.begin = found.image_begin.data();
  run_padding(call, p);
  return result;
}

}  // namespace visops
