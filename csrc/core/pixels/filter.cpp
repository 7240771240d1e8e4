#include "core/pixels/filter.h"

namespace visops {

KernelStub<FilterParams> filter_stub{"filter"};

}  // namespace visops
