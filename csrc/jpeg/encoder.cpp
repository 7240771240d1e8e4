// NOTE [ Encoding ]
// Errors jump back as NOTE [ Errors of libjpeg ] in session.h says. The file is in libjpeg's memory
// until it is copied, so nothing with a destructor lives across a jump.
#include "jpeg/encoder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/platform.h"
#include "jpeg/decoder.h"
#include "jpeg/session.h"

namespace visops::jpeg {
namespace {

struct Failure {
  jpeg_error_mgr errors;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  Failure& failure = *static_cast<Failure*>(info->client_data);
  failure.errors.format_message(info, failure.message);
  std::longjmp(failure.jump, 1);
}

}  // namespace

std::vector<uint8_t> encode(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                            int quality) {
  Failure failure = {};
  jpeg_compress_struct info = {};
  unsigned char* file = nullptr;
  unsigned long length = 0;
  info.err = jpeg_std_error(&failure.errors);
  failure.errors.error_exit = on_error;
  info.client_data = &failure;
  if (setjmp(failure.jump)) {
    jpeg_destroy_compress(&info);
    std::free(file);
    throw Damaged(failure.message);
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &file, &length);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = static_cast<int>(channels);
  info.in_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels + y * width * channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::vector<uint8_t> out(file, file + length);
  std::free(file);
  return out;
}

}  // namespace visops::jpeg

// Compresses pixels [height, width, channels] and writes what is decoded of that to `out`; 0, or 1
// with a message.
extern "C" VISOPS_API int visops_jpeg_round_trip(const uint8_t* pixels, int64_t height,
                                                 int64_t width, int64_t channels, int64_t quality,
                                                 uint8_t* out, char* message, int64_t capacity) {
  try {
    const auto file =
        visops::jpeg::encode(pixels, height, width, channels, static_cast<int>(quality));
    visops::jpeg::decode(file.data(), file.size(), {1, 0, 0, height, width, channels, 1}, out);
    return 0;
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), static_cast<size_t>(capacity) - 1);
    message[capacity - 1] = '\0';
    return 1;
  }
}
