// One file being read by libjpeg, whose errors become C++ exceptions.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include <jpeglib.h>  // needs <cstdio>

namespace visops::jpeg {

// What is wrong with a file, in words that follow "visops.decode_jpeg: ".
class Damaged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// NOTE [ Errors of libjpeg ]
// libjpeg reports an error by a callback that must not return. It jumps back into `run`, which
// throws; no C++ exception crosses C frames. The jump skips destructors, so a step given to `run`
// calls libjpeg, and holds nothing that has one.
//
// libjpeg only warns of damaged data, and invents pixels for it. Here most warnings are errors; see
// `is_harmless`. A file of one scan may lack its end-of-image marker: libjpeg warns again when it
// needs bits past the end.
class Session {
 public:
  Session(const uint8_t* data, size_t length);
  ~Session() { jpeg_destroy_decompress(&info_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs step(info), where info is libjpeg's state of this file; throws Damaged if that fails.
  template <class Step>
  void run(const Step& step) {
    if (setjmp(state_.jump)) throw Damaged(state_.message);
    step(info_);
  }

  // Throws if the file ended early and has several scans, of which the last may be missing. Call it
  // once libjpeg has read them all, which jpeg_start_decompress does.
  void reject_lost_scans();

 private:
  struct State {
    jpeg_error_mgr errors;  // libjpeg has a pointer to it
    jpeg_progress_mgr progress;
    jmp_buf jump;
    size_t length;
    bool ended;  // libjpeg has asked for more than there is
    char message[JMSG_LENGTH_MAX + 64];
  };

  static State& state_of(j_common_ptr info) { return *static_cast<State*>(info->client_data); }
  [[noreturn]] static void on_error(j_common_ptr info);
  static void on_message(j_common_ptr info, int level);
  static void on_progress(j_common_ptr info);

  jpeg_decompress_struct info_ = {};
  State state_ = {};
};

}  // namespace visops::jpeg
