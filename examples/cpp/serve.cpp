// A server in miniature: reads a photo's path from each line of its input, answers with a line of
// what the detector finds, and reports at the end how long the detector took.
//
//     serve DETECTOR.pt2 < requests.txt > answers.txt
//
// A request that fails is answered with the error. serve.py does the same in Python.
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

#include "detector.h"
#include "photo.h"

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr size_t kWarmup = 10;  // requests that are not counted

// The smallest time that a part of all times does not exceed.
double percentile(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<size_t>(std::ceil(part * sorted.size())) - 1];
}

void report(std::vector<double> times) {
  if (times.size() <= kWarmup) return;
  times.erase(times.begin(), times.begin() + kWarmup);
  std::sort(times.begin(), times.end());
  std::fprintf(stderr, "C++: %zu photos on 1 thread: p50 %.2f ms, p99 %.2f ms\n", times.size(),
               percentile(times, 0.5), percentile(times, 0.99));
}

void serve(const std::string& package) {
  const c10::InferenceMode guard;
  at::set_num_threads(1);
  Detector detector(package);
  std::vector<double> times;
  for (std::string path; std::getline(std::cin, path);) {
    try {
      const at::Tensor photo = read_photo(path);
      const auto begin = Clock::now();
      const Detections found = detector(photo);
      times.push_back(Milliseconds(Clock::now() - begin).count());
      print(path, found);
    } catch (const std::exception& error) {
      std::printf("error: %s\n", error.what());
      std::fflush(stdout);
    }
  }
  report(std::move(times));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " DETECTOR.pt2 < requests.txt\n";
    return EXIT_FAILURE;
  }
  try {
    serve(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "serve: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
