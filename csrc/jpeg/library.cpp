// The interface of libvisops_jpeg: C, so that it needs neither torch nor Python. Functions return
// 0, or write into `message` why they fail, and return 1.
#include <algorithm>
#include <cstring>
#include <exception>

#include "core/platform.h"
#include "jpeg/decoder.h"
#include "jpeg/session.h"

namespace {

template <class Call>
int guarded(const Call& call, char* message, int64_t capacity) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    const size_t length = std::min(std::strlen(error.what()), static_cast<size_t>(capacity) - 1);
    std::memcpy(message, error.what(), length);
    message[length] = '\0';
    return 1;
  }
}

}  // namespace

// Increases with every change of the functions below.
extern "C" VISOPS_API int visops_jpeg_interface() { return 1; }

// As in 2001005 for libjpeg-turbo 2.1.5.
extern "C" VISOPS_API int visops_jpeg_turbo_version() { return LIBJPEG_TURBO_VERSION_NUMBER; }

// numbers: height, width, components, orientation.
extern "C" VISOPS_API int visops_jpeg_read_header(const uint8_t* data, int64_t length,
                                                  int64_t* numbers, char* message,
                                                  int64_t capacity) {
  const auto call = [&] {
    const auto header = visops::jpeg::read_header(data, static_cast<size_t>(length));
    numbers[0] = header.height;
    numbers[1] = header.width;
    numbers[2] = header.components;
    numbers[3] = header.orientation;
  };
  return guarded(call, message, capacity);
}

// numbers: those of Request, in its order.
extern "C" VISOPS_API int visops_jpeg_decode(const uint8_t* data, int64_t length,
                                             const int64_t* numbers, uint8_t* out, char* message,
                                             int64_t capacity) {
  const auto call = [&] {
    const visops::jpeg::Request request = {numbers[0], numbers[1], numbers[2], numbers[3],
                                           numbers[4], numbers[5], numbers[6]};
    visops::jpeg::decode(data, static_cast<size_t>(length), request, out);
  };
  return guarded(call, message, capacity);
}
