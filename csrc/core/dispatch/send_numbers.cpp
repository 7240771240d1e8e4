#include "core/dispatch/send_numbers.h"

namespace visops {

KernelStub<SendNumbersParams> send_numbers_stub("send_numbers");

}  // namespace visops
