// Numbers of a chain's pass, for csrc/core/chain/run/on_device.h.
#include "core/dispatch/cuda_library.h"
#include "cuda/send_words.h"

namespace visops {
namespace {

void send_numbers_cuda(const SendNumbersParams& p, Workspace& workspace) {
  constexpr int64_t kWords = sizeof(uint64_t) / sizeof(uint32_t);
  send_words(p.from, p.to, p.count * kWords, workspace.stream());
}

const bool registered = send_numbers_stub.set(kCudaSlot, send_numbers_cuda);

}  // namespace
}  // namespace visops
