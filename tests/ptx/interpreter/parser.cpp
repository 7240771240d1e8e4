#include "parser.h"

#include <cctype>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ptx {
namespace {

size_t bytes_of_type(std::string_view type) {
  for (const char* at = type.data(); at != type.data() + type.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(*at))) return std::stoul(std::string(at)) / 8;
  }
  throw Error("a type without a size: " + std::string(type));
}

class Parser {
 public:
  Parser(const Functions& functions, std::string_view text, int line, Function* out)
      : functions_(functions), text_(text), line_(line), out_(out) {}

  void entry(const std::vector<Variable>& shared_of_module) {
    out_->shared = shared_of_module;
    out_->line = line_;
    expect(".entry");
    out_->name = name();
    skip();
    if (peek() == '(') parameters();
    for (skip(); peek() != '{'; skip()) directive();
    body();
  }

  // A function in the place of its call, as NOTE [ Calls ] says.
  void inlined(const std::string& prefix, const std::vector<std::string>& results,
               const std::vector<std::string>& arguments) {
    prefix_ = prefix;
    expect(".func");
    skip();
    if (peek() == '(') rename(results);
    name();
    skip();
    if (peek() == '(') rename(arguments);
    skip();
    body();
    out_->labels[prefix_] = out_->statements.size();
  }

  // ".shared .align 4 .b8 name[12]" at the start of the text; up to ';'.
  Variable variable() {
    Variable v;
    bool is_extern = false;
    size_t element = 0;
    for (skip(); peek() == '.'; skip()) {
      const std::string word = directive_name();
      if (word == ".extern") is_extern = true;
      if (word == ".align") v.align = number();
      if (word[1] == 'b' || word[1] == 'u' || word[1] == 's' || word[1] == 'f') {
        if (word != ".shared") element = bytes_of_type(word);
      }
    }
    v.name = name();
    skip();
    size_t count = 1;
    if (peek() == '[') {
      ++at_;
      skip();
      count = peek() == ']' ? 0 : number();
      skip();
      expect("]");
      skip();
    }
    if (v.align < element) v.align = element;
    v.bytes = element * count;
    v.is_dynamic = is_extern;
    if (peek() == '=') fail("initialised variables are not supported");
    expect(";");
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(out_->file + ":" + std::to_string(line_) + ": " + what);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
      } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      } else if (!std::isspace(static_cast<unsigned char>(c))) {
        return;
      }
    }
  }
  bool take(std::string_view what) {
    skip();
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) {
      fail("expected " + std::string(what) + " at " + std::string(text_.substr(at_, 40)));
    }
  }
  std::string name() {
    skip();
    const size_t begin = at_;
    while (is_name(peek())) ++at_;
    if (begin == at_) fail("expected a name at " + std::string(text_.substr(at_, 40)));
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string directive_name() {
    expect(".");
    return "." + name();
  }
  uint64_t number() {
    skip();
    size_t used = 0;
    const std::string digits(text_.substr(at_, 40));
    const uint64_t value = std::stoull(digits, &used, 0);
    at_ += used;
    if (peek() == 'U') ++at_;
    return value;
  }

  void parameters() {
    expect("(");
    if (take(")")) return;
    size_t offset = 0;
    do {
      expect(".param");
      Parameter p = {"", 1, 0, 0};
      for (skip(); peek() == '.'; skip()) {
        const std::string word = directive_name();
        if (word == ".align") {
          p.align = number();
        } else {
          p.bytes = bytes_of_type(word);
        }
      }
      if (p.align < p.bytes) p.align = p.bytes;
      p.name = name();
      if (take("[")) {
        p.bytes *= number();
        expect("]");
      }
      offset = (offset + p.align - 1) / p.align * p.align;
      p.offset = offset;
      offset += p.bytes;
      out_->parameters.push_back(p);
    } while (take(","));
    expect(")");
    out_->parameter_bytes = offset;
  }

  // The parameters of a function are variables of its caller.
  void rename(const std::vector<std::string>& variables) {
    Function formal;
    formal.parameters.swap(out_->parameters);
    std::swap(formal.parameter_bytes, out_->parameter_bytes);
    parameters();
    formal.parameters.swap(out_->parameters);
    std::swap(formal.parameter_bytes, out_->parameter_bytes);
    if (formal.parameters.size() != variables.size()) fail("a call with other parameters");
    for (size_t i = 0; i < variables.size(); ++i)
      variables_[formal.parameters[i].name] = variables[i];
  }

  void directive() {
    const std::string word = directive_name();
    if (word == ".maxntid") {
      out_->max_threads = static_cast<int>(number());
      while (take(",")) out_->max_threads *= static_cast<int>(number());
    } else if (word == ".minnctapersm") {
      out_->min_blocks = static_cast<int>(number());
    } else {
      fail("unknown directive " + word);
    }
  }

  void body() {
    expect("{");
    scopes_.emplace_back();
    while (!scopes_.empty()) {
      skip();
      const char c = peek();
      if (c == '\0') fail("the text ends within a kernel");
      if (c == '{') {
        ++at_;
        scopes_.emplace_back();
      } else if (c == '}') {
        ++at_;
        scopes_.pop_back();
      } else if (c == '.') {
        declaration();
      } else if (!label()) {
        statement();
      }
    }
    for (const auto& [target, line] : wanted_) {
      if (target != prefix_ && out_->labels.count(target) == 0) fail("no label " + target);
    }
  }

  void declaration() {
    const size_t begin = at_;
    const std::string word = directive_name();
    if (word == ".reg") {
      const std::string type = directive_name();
      const int bits = type == ".pred" ? 1 : static_cast<int>(8 * bytes_of_type(type));
      do {
        const std::string percent = take("%") ? "%" : "";  // "temp_param_reg" has none
        const std::string stem = percent + name();
        if (take("<")) {
          const uint64_t count = number();
          expect(">");
          for (uint64_t i = 0; i < count; ++i) declare(stem + std::to_string(i), bits);
        } else {
          declare(stem, bits);
        }
      } while (take(","));
      expect(";");
    } else if (word == ".shared" || word == ".local" || word == ".param") {
      at_ = begin;
      Variable v = variable();
      if (word != ".shared") {
        variables_[v.name] = v.name + "$" + std::to_string(out_->local.size());
        v.name = variables_[v.name];
      }
      (word == ".shared" ? out_->shared : out_->local).push_back(v);
    } else if (word == ".pragma" || word == ".loc" || word == ".file") {
      const size_t end = word == ".pragma" ? text_.find(';', at_) : text_.find('\n', at_);
      at_ = end + 1;
      if (word != ".pragma") ++line_;
    } else {
      fail("unknown declaration " + word);
    }
  }

  void declare(const std::string& name, int bits) {
    scopes_.back()[name] = static_cast<int>(out_->registers.size());
    out_->registers.push_back({name, bits});
  }
  int find(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return found->second;
    }
    return -1;
  }

  bool label() {
    size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    if (end == at_ || end >= text_.size() || text_[end] != ':') return false;
    out_->labels[prefix_ + std::string(text_.substr(at_, end - at_))] = out_->statements.size();
    at_ = end + 1;
    return true;
  }

  void statement() {
    Statement s;
    s.line = line_;
    if (take("@")) {
      s.guard_negated = take("!");
      expect("%");
      s.guard = find("%" + name());
      if (s.guard < 0) fail("an unknown guard");
    }
    skip();
    const size_t begin = at_;
    while (is_name(peek()) || peek() == '.' || (peek() == ':' && text_.substr(at_, 2) == "::")) {
      at_ += peek() == ':' ? 2 : 1;
    }
    s.op = std::string(text_.substr(begin, at_ - begin));
    if (s.op.empty()) fail("expected an instruction at " + std::string(text_.substr(at_, 40)));
    std::stringstream parts(s.op);
    for (std::string part; std::getline(parts, part, '.');) s.modifiers.push_back(part);
    if (s.modifiers[0] == "call") return call(s);
    if (!take(";")) {
      do {
        s.words.push_back(word());
      } while (take(","));
      expect(";");
    }
    if (s.modifiers[0] == "bra") {
      s.words.at(0).name = prefix_ + s.words[0].name;
      wanted_.emplace_back(s.words[0].name, s.line);
    } else if (s.modifiers[0] == "ret" && !prefix_.empty()) {
      s.op = s.modifiers[0] = "bra";
      s.words.resize(1);
      s.words[0].kind = Word::kSymbol;
      s.words[0].name = prefix_;
    }
    for (const Word& w : s.words) {
      if (w.kind == Word::kAddress && w.is_variable && s.modifiers.at(1) == "param") {
        s.op.replace(s.op.find("param"), 5, "local");
        s.modifiers[1] = "local";
      }
    }
    out_->statements.push_back(std::move(s));
  }

  // "(result, ...), function, (argument, ...);" with both lists optional.
  void call(const Statement& s) {
    if (s.guard >= 0) fail("a call with a guard is not supported");
    std::vector<std::string> results, arguments;
    const auto list = [&](std::vector<std::string>* to) {
      do {
        to->push_back(word().name);
      } while (take(","));
      expect(")");
    };
    if (take("(")) list(&results), expect(",");
    const std::string function = name();
    if (take(",")) expect("("), list(&arguments);
    expect(";");
    const auto found = functions_.by_name.find(function);
    if (found == functions_.by_name.end()) fail("a call of an unknown function");
    const Module::Entry& body = found->second;
    const std::string prefix = prefix_ + "call" + std::to_string(out_->statements.size()) + "$";
    if (prefix.size() > 400) fail("calls nest too deep");
    Parser(functions_, functions_.text.substr(body.begin, body.end - body.begin), body.line, out_)
        .inlined(prefix, results, arguments);
  }

  Word word() {
    skip();
    Word w;
    switch (peek()) {
      case '!': {
        ++at_;
        w = word();
        w.negated = true;
        return w;
      }
      case '{': {
        ++at_;
        w.kind = Word::kVector;
        do {
          w.parts.push_back(word());
        } while (take(","));
        expect("}");
        return w;
      }
      case '[': {
        ++at_;
        Word base = word();
        w.kind = Word::kAddress;
        if (base.kind == Word::kRegister) {
          w.number = base.number;
          w.has_base = true;
        } else if (base.kind == Word::kSymbol) {
          w.name = base.name;
          w.offset = base.offset;
          w.base_is_symbol = w.has_base = true;
          w.is_variable = base.is_variable;
        } else {
          w.offset = static_cast<int64_t>(base.bits);
        }
        skip();
        if (take("+")) {
          const bool negative = take("-");
          const int64_t n = static_cast<int64_t>(number());
          w.offset += negative ? -n : n;
        }
        expect("]");
        return w;
      }
      case '%': {
        const size_t begin = at_++;
        while (is_name(peek()) || peek() == '.') ++at_;
        const std::string name(text_.substr(begin, at_ - begin));
        w.number = find(name);
        w.kind = w.number < 0 ? Word::kSpecial : Word::kRegister;
        w.name = name;
        if (w.number >= 0 && peek() == '|') {
          ++at_;
          w.second = word().number;
        }
        return w;
      }
      default: break;
    }
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-') {
      if (c == '0' && (text_[at_ + 1] == 'f' || text_[at_ + 1] == 'F')) {
        w.kind = Word::kFloat;
        w.bits = std::stoull(std::string(text_.substr(at_ + 2, 8)), nullptr, 16);
        at_ += 10;
      } else if (c == '0' && (text_[at_ + 1] == 'd' || text_[at_ + 1] == 'D')) {
        w.kind = Word::kDouble;
        w.bits = std::stoull(std::string(text_.substr(at_ + 2, 16)), nullptr, 16);
        at_ += 18;
      } else {
        const bool negative = take("-");
        const uint64_t n = number();
        w.kind = Word::kInteger;
        w.bits = negative ? uint64_t{0} - n : n;
      }
      return w;
    }
    w.name = name();
    if (w.name == "_") return w;  // a sink
    w.kind = Word::kSymbol;
    const auto variable = variables_.find(w.name);
    if (variable != variables_.end()) w.name = variable->second, w.is_variable = true;
    if (peek() == '+') {
      ++at_;
      w.offset = static_cast<int64_t>(number());
    }
    return w;
  }

  const Functions& functions_;
  std::string_view text_;
  size_t at_ = 0;
  int line_;
  Function* out_;
  std::vector<std::map<std::string, int>> scopes_;
  std::vector<std::pair<std::string, int>> wanted_;
  std::string prefix_;                            // of labels; empty for a kernel
  std::map<std::string, std::string> variables_;  // of a thread, by the names in the text
};

}  // namespace

void parse_kernel(const Functions& functions, const Module::Entry& kernel,
                  const std::vector<Variable>& shared_of_module, Function* out) {
  Parser(functions, functions.text.substr(kernel.begin, kernel.end - kernel.begin), kernel.line,
         out)
      .entry(shared_of_module);
}

Variable parse_variable(std::string_view text, int line, Function* where) {
  const Functions none = {text, {}};
  return Parser(none, text, line, where).variable();
}

}  // namespace ptx
