// Makes the calls of a file that calls_file.py wrote, past Python, and compares every
// bit with the results in it:
//
//     replay LIBRARY FILE
//
// It is how Windows' library is tested in Wine, for which there is no Python. Refused calls must be
// refused with the same words.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::detail::from;
using torch::stable::detail::to;
using Bytes = std::vector<char>;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "replay: %s\n", why.c_str());
  std::exit(2);
}

#if defined(_WIN32)
void* load(const char* path) { return reinterpret_cast<void*>(LoadLibraryA(path)); }
void* symbol(const char* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(GetModuleHandleA(library), name));
}
const char kTorch[] = "torch_cpu.dll";
#else
void* load(const char* path) { return dlopen(path, RTLD_NOW); }
void* symbol(const char*, const char* name) { return dlsym(RTLD_DEFAULT, name); }
const char kTorch[] = "";
#endif

// A tensor as the file has it: its elements with the gaps that its strides leave.
struct Stored {
  int32_t dtype;
  std::vector<int64_t> sizes, strides;
  Bytes bytes;
};

class File {
 public:
  explicit File(const char* path) : stream_(path, std::ios::binary) {
    if (!stream_) stop(std::string("can't read ") + path);
  }
  bool is_at_end() { return stream_.peek() == std::ifstream::traits_type::eof(); }
  char letter() { return value<char>(); }
  int64_t integer() { return value<int64_t>(); }
  double real() { return value<double>(); }
  std::string text() {
    const Bytes bytes = block();
    return std::string(bytes.begin(), bytes.end());
  }
  Bytes block() {
    Bytes bytes(static_cast<size_t>(integer()));
    read(bytes.data(), bytes.size());
    return bytes;
  }
  std::vector<int64_t> integers() { return list<int64_t>(); }
  std::vector<double> reals() { return list<double>(); }
  Stored tensor() {
    const auto dtype = static_cast<int32_t>(integer());
    std::vector<int64_t> sizes = integers(), strides = integers();
    return {dtype, sizes, strides, block()};
  }

 private:
  void read(char* to, size_t bytes) {
    stream_.read(to, static_cast<std::streamsize>(bytes));
    if (!stream_) stop("the file ends early");
  }
  template <class T>
  T value() {
    T result;
    read(reinterpret_cast<char*>(&result), sizeof(T));
    return result;
  }
  template <class T>
  std::vector<T> list() {
    std::vector<T> result(static_cast<size_t>(integer()));
    read(reinterpret_cast<char*>(result.data()), result.size() * sizeof(T));
    return result;
  }

  std::ifstream stream_;
};

// Memory of arguments, 64 bytes aligned as torch's own is, and the tensors that lie in it.
class Arguments {
 public:
  Tensor make(const Stored& stored) {
    const size_t bytes = stored.bytes.size();
    rooms_.emplace_back(new char[bytes + 64]);
    auto address = reinterpret_cast<uintptr_t>(rooms_.back().get());
    char* const data = reinterpret_cast<char*>((address + 63) & ~uintptr_t{63});
    std::memcpy(data, stored.bytes.data(), bytes);
    AtenTensorHandle handle;
    const auto dims = static_cast<int64_t>(stored.sizes.size());
    if (aoti_torch_create_tensor_from_blob(data, dims, stored.sizes.data(), stored.strides.data(),
                                           0, stored.dtype, aoti_torch_device_type_cpu(), 0,
                                           &handle) != 0) {
      stop("no tensor");
    }
    tensors_.emplace_back(handle);
    return tensors_.back();
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<char[]>> rooms_;
  std::vector<Tensor> tensors_;
};

template <class T>
StableIValue boxed(bool is_optional, const T& value) {
  return is_optional ? from(std::optional<T>(value)) : from(value);
}

StableIValue argument(File& file, Arguments& arguments) {
  const bool is_optional = file.letter() == '?';
  const char kind = file.letter();
  const auto tensors = [&] {
    std::vector<Tensor> result;
    for (int64_t count = file.integer(); count > 0; --count) {
      result.push_back(arguments.make(file.tensor()));
    }
    return result;
  };
  switch (kind) {
    case 'n': return from(std::nullopt);
    case 't': return boxed(is_optional, arguments.make(file.tensor()));
    case 'l': return boxed(is_optional, tensors());
    case 'i': return boxed(is_optional, file.integer());
    case 'f': return boxed(is_optional, file.real());
    case 'b': return boxed(is_optional, file.integer() != 0);
    case 's': return boxed(is_optional, file.text());
    case 'd': return boxed(is_optional, static_cast<ScalarType>(file.integer()));
    case 'I': return boxed(is_optional, file.integers());
    case 'F': return boxed(is_optional, file.reals());
    case 'B': {
      const std::vector<int64_t> values = file.integers();
      const auto flags = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), flags.get());
      return from(torch::headeronly::HeaderOnlyArrayRef<bool>(flags.get(), values.size()));
    }
  }
  stop(std::string("no kind of argument ") + kind);
}

// Whether an element is NaN, of the dtypes that have them.
bool is_nan(const char* element, ScalarType dtype) {
  const auto above = [&](auto zero, unsigned long long infinity) {
    std::memcpy(&zero, element, sizeof(zero));
    const auto size = static_cast<unsigned long long>(zero) & (~0ull >> (65 - 8 * sizeof(zero)));
    return size > infinity;
  };
  switch (dtype) {
    case ScalarType::Half: return above(uint16_t{0}, 0x7c00);
    case ScalarType::BFloat16: return above(uint16_t{0}, 0x7f80);
    case ScalarType::Float: return above(uint32_t{0}, 0x7f800000);
    case ScalarType::Double: return above(uint64_t{0}, 0x7ff0000000000000);
    default: return false;
  }
}

// How a tensor differs from the one in the file; empty: in nothing. NaNs' payloads are counted.
std::string difference(const Tensor& got, const Stored& wanted, int64_t* payloads) {
  const auto dtype = got.scalar_type();
  int32_t code = 0;
  aoti_torch_get_dtype(got.get(), &code);
  if (code != wanted.dtype) return "dtype";
  const auto dims = static_cast<int64_t>(wanted.sizes.size());
  if (got.dim() != dims) return "rank";
  int64_t count = 1, extent = 1;
  for (int64_t d = 0; d < dims; ++d) {
    if (got.size(d) != wanted.sizes[d]) return "shape";
    if (got.stride(d) != wanted.strides[d]) return "strides";
    count *= got.size(d);
    extent += (got.size(d) - 1) * got.stride(d);
  }
  if (count == 0) return "";
  const auto size = static_cast<int64_t>(wanted.bytes.size()) / extent;
  const char* const data = static_cast<const char*>(got.data_ptr());
  bool only_payloads = false;
  std::vector<int64_t> index(static_cast<size_t>(dims), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (int64_t d = 0; d < dims; ++d) at += index[d] * wanted.strides[d];
    const char *const a = data + at * size, *const b = wanted.bytes.data() + at * size;
    if (std::memcmp(a, b, static_cast<size_t>(size)) != 0) {
      if (!is_nan(a, dtype) || !is_nan(b, dtype)) {
        return "element " + std::to_string(i) + " of " + std::to_string(count);
      }
      only_payloads = true;
    }
    for (int64_t d = dims - 1; d >= 0 && ++index[d] == wanted.sizes[d]; --d) index[d] = 0;
  }
  *payloads += only_payloads ? 1 : 0;
  return "";
}

struct Counts {
  int64_t calls = 0, refused = 0, words = 0, tensors = 0, payloads = 0, differ = 0;

  void tell(const std::string& call, const std::string& found) {
    if (!found.empty() && ++differ <= 20) {
      std::printf("  call %lld, %s: %s\n", static_cast<long long>(calls), call.c_str(),
                  found.c_str());
    }
  }
};

void replay(File& file, Counts& counts) {
  const std::string name = file.text(), overload = file.text();
  Arguments arguments;
  std::vector<StableIValue> stack(static_cast<size_t>(file.integer()));
  for (StableIValue& value : stack) value = argument(file, arguments);
  const std::string returned = file.text();  // a letter for each result; "!": it was refused
  stack.resize(std::max<size_t>(stack.size(), returned.size() + 1));
  ++counts.calls;
  const AOTITorchError failed =
      torch_call_dispatcher(name.c_str(), overload.c_str(), stack.data(), TORCH_ABI_VERSION);
  if (returned == "!") {
    ++counts.refused;
    const std::string wanted = file.text();
    static const auto what = reinterpret_cast<const char* (*)()>(
        symbol(kTorch, "torch_exception_get_what_without_backtrace"));  // not in torch 2.11
    const std::string got = failed == 0 ? "nothing" : what == nullptr ? wanted : what();
    counts.words += what != nullptr ? 1 : 0;
    return counts.tell(name,
                       got == wanted ? "" : "refused with\n    " + got + ", not\n    " + wanted);
  }
  if (failed != 0) return counts.tell(name, "failed");  // what is left of the call misleads
  std::vector<Tensor> results;
  for (size_t i = 0; i < returned.size(); ++i) {
    if (returned[i] == 't') results.push_back(to<Tensor>(stack[i]));
    if (returned[i] == 'l') {
      for (Tensor& tensor : to<std::vector<Tensor>>(stack[i])) results.push_back(tensor);
    }
  }
  if (file.letter() == 'm') {  // it may change its arguments
    results.insert(results.end(), arguments.tensors().begin(), arguments.tensors().end());
  }
  const int64_t wanted = file.integer();
  std::string found = wanted == static_cast<int64_t>(results.size()) ? "" : "number of results";
  for (int64_t i = 0; i < wanted; ++i) {
    const Stored stored = file.tensor();
    ++counts.tensors;
    if (found.empty()) found = difference(results[i], stored, &counts.payloads);
  }
  counts.tell(name, found);
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) stop("wants the library and a file of calls");
  if (load(words[1]) == nullptr) stop(std::string("can't load ") + words[1]);
  File file(words[2]);
  Counts counts;
  while (!file.is_at_end()) replay(file, counts);
  const auto number = [](int64_t n) { return static_cast<long long>(n); };
  std::printf(
      "TOTAL {'calls': %lld, 'refused': %lld, 'words': %lld, 'tensors': %lld, 'NaN payloads': "
      "%lld, "
      "'differ': %lld}\n",
      number(counts.calls), number(counts.refused), number(counts.words), number(counts.tensors),
      number(counts.payloads), number(counts.differ));
  return counts.differ != 0 || counts.tensors == 0 ? 1 : 0;
}
