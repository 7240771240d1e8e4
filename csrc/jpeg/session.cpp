#include "jpeg/session.h"

#include <jerror.h>

namespace visops::jpeg {
namespace {

// A progressive file of a few bytes can make libjpeg pass over all coefficients once per scan.
// Encoders write about ten.
constexpr int kMostScans = 500;

bool is_harmless(int warning) {
  switch (warning) {
    case JWRN_ADOBE_XFORM:      // the usual transform is assumed
    case JWRN_BOGUS_ICC:        // profiles are not used
    case JWRN_EXTRANEOUS_DATA:  // bytes between segments, which are skipped
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA: return true;
    default: return false;
  }
}

}  // namespace

Session::Session(const uint8_t* data, size_t length) {
  info_.err = jpeg_std_error(&state_.errors);
  info_.client_data = &state_;
  state_.errors.error_exit = on_error;
  state_.errors.emit_message = on_message;
  state_.length = length;
  try {
    run([&](jpeg_decompress_struct& info) {
      jpeg_create_decompress(&info);  // keeps `err` and `client_data`
      info.progress = &state_.progress;
      state_.progress.progress_monitor = on_progress;
      jpeg_mem_src(&info, data, static_cast<unsigned long>(length));
    });
  } catch (...) {
    jpeg_destroy_decompress(&info_);
    throw;
  }
}

void Session::on_error(j_common_ptr info) {
  State& state = state_of(info);
  const int code = state.errors.msg_code;
  if (code == JERR_NO_SOI) {
    const int* bytes = state.errors.msg_parm.i;
    std::snprintf(state.message, sizeof(state.message),
                  "data is not a JPEG: it starts with the bytes 0x%02x 0x%02x", bytes[0], bytes[1]);
  } else if (state.ended) {
    std::snprintf(state.message, sizeof(state.message),
                  "data is truncated: it has %zu bytes, and the image needs more", state.length);
  } else {
    char text[JMSG_LENGTH_MAX];
    state.errors.format_message(info, text);
    std::snprintf(state.message, sizeof(state.message), "data can't be decoded: %s", text);
  }
  std::longjmp(state.jump, 1);
}

void Session::on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  State& state = state_of(info);
  if (state.errors.msg_code == JWRN_JPEG_EOF) {
    state.ended = true;  // an end-of-image marker takes the place of what is missing
    return;
  }
  if (!is_harmless(state.errors.msg_code)) on_error(info);
}

void Session::reject_lost_scans() {
  run([&](jpeg_decompress_struct& info) {
    if (state_.ended && jpeg_has_multiple_scans(&info))
      on_error(reinterpret_cast<j_common_ptr>(&info));
  });
}

void Session::on_progress(j_common_ptr info) {
  State& state = state_of(info);
  const int scans = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scans <= kMostScans) return;
  std::snprintf(state.message, sizeof(state.message),
                "data has more than %d scans, must be a photo rather than an attack", kMostScans);
  std::longjmp(state.jump, 1);
}

}  // namespace visops::jpeg
