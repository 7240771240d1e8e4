// Where basic blocks begin and end, and which comes before which.
#include "blocks.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <set>

namespace ptx {
namespace {

// Bourdoncle's weak topological order.
class Order {
 public:
  explicit Order(const std::vector<Raw>& blocks) : blocks_(blocks), number_(blocks.size(), 0) {
    visit(0, &order_);
    std::reverse(order_.begin(), order_.end());
  }
  const std::vector<size_t>& get() const { return order_; }

 private:
  // Lists are in reverse: what comes first is appended last.
  size_t visit(size_t v, std::vector<size_t>* list) {
    stack_.push_back(v);
    number_[v] = ++count_;
    size_t head = number_[v];
    bool is_loop = false;
    for (const size_t w : blocks_[v].next) {
      const size_t least = number_[w] == 0 ? visit(w, list) : number_[w];
      if (least <= head) head = least, is_loop = true;
    }
    if (head == number_[v]) {
      number_[v] = SIZE_MAX;
      size_t element = stack_.back();
      stack_.pop_back();
      if (is_loop) {
        while (element != v) {
          number_[element] = 0;
          element = stack_.back();
          stack_.pop_back();
        }
        std::vector<size_t> inner;
        for (const size_t w : blocks_[v].next) {
          if (number_[w] == 0) visit(w, &inner);
        }
        list->insert(list->end(), inner.begin(), inner.end());
      }
      list->push_back(v);
    }
    return head;
  }

  const std::vector<Raw>& blocks_;
  std::vector<size_t> number_, stack_, order_;
  size_t count_ = 0;
};

}  // namespace

bool is_sync(const Statement& s) {
  const std::string& op = s.modifiers[0];
  if (op == "bar" || op == "barrier") return s.modifiers.size() > 1 && s.modifiers[1] == "warp";
  return op == "shfl" || op == "vote" || op == "redux" || op == "match";
}
bool is_barrier(const Statement& s) {
  return (s.modifiers[0] == "bar" || s.modifiers[0] == "barrier") && !is_sync(s);
}
bool ends(const Statement& s) {
  return s.modifiers[0] == "bra" || s.modifiers[0] == "ret" || s.modifiers[0] == "exit";
}

std::vector<Raw> find_blocks(const Function& f) {
  std::vector<Raw> blocks;
  const std::vector<Statement>& all = f.statements;
  std::set<size_t> leaders = {0};
  for (size_t i = 0; i < all.size(); ++i) {
    if (ends(all[i]) || is_barrier(all[i])) leaders.insert(i + 1);
    if (is_sync(all[i]) || is_barrier(all[i])) leaders.insert(i);
    if (all[i].modifiers[0] == "bra") leaders.insert(f.labels.at(all[i].words[0].name));
  }
  std::map<size_t, size_t> number;
  for (const size_t leader : leaders) {
    if (leader < all.size()) number.emplace(leader, number.size());
  }
  for (auto at = number.begin(); at != number.end(); ++at) {
    Raw r;
    r.begin = at->first;
    r.end = std::next(at) == number.end() ? all.size() : std::next(at)->first;
    r.is_sync = is_sync(all[r.begin]);
    const Statement& last = all[r.end - 1];
    const bool falls = !ends(last) || last.guard >= 0;
    if (falls) {
      if (r.end == all.size()) fail(f, last, "the text ends without ret");
      r.next.push_back(number.at(r.end));
    }
    if (last.modifiers[0] == "bra") {
      const size_t target = f.labels.at(last.words[0].name);
      if (target >= all.size()) fail(f, last, "a label at the end of the text");
      r.next.push_back(number.at(target));
    }
    blocks.push_back(r);
  }
  return blocks;
}

std::vector<size_t> order_of(const std::vector<Raw>& blocks) { return Order(blocks).get(); }

void fail(const Function& f, const Statement& s, const std::string& what) {
  throw Error(f.file + ":" + std::to_string(s.line) + ": " + s.op + ": " + what);
}

}  // namespace ptx
