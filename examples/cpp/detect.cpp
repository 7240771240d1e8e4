// Runs the compiled detector on photos.
//
//     detect DETECTOR.pt2 PHOTO.ppm...
#include <c10/core/InferenceMode.h>

#include <cstdlib>
#include <exception>
#include <iostream>

#include "detector.h"
#include "photo.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " DETECTOR.pt2 PHOTO.ppm...\n";
    return EXIT_FAILURE;
  }
  try {
    const c10::InferenceMode guard;
    Detector detector(argv[1]);
    for (const std::string path : std::vector<std::string>(argv + 2, argv + argc)) {
      print(path, detector(read_photo(path)));
    }
  } catch (const std::exception& error) {
    std::cerr << "detect: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
