#include "python/bindings.h"

#include "core/check.h"

// It has no state of its own, so free-threaded interpreters need no lock.
PYBIND11_MODULE(_native, m, pybind11::mod_gil_not_used()) {
  m.doc() = "What the visops package calls past torch's dispatcher.";
  pybind11::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const visops::InvalidArgument& invalid) {
      pybind11::set_error(PyExc_ValueError, invalid.what());
    }
  });
  visops::take_kernels();
  visops::bind_affine(m);
  visops::bind_assignment(m);
  visops::bind_augment(m);
  visops::bind_steps(m);
  visops::bind_plan(m);
  visops::bind_chain(m);
  visops::bind_fields(m);
  visops::bind_files(m);
  visops::bind_passes(m);
  visops::bind_pipeline(m);
  visops::bind_pixels(m);
  visops::bind_png(m);
  visops::bind_polygons(m);
  visops::bind_masks(m);
  visops::bind_rle(m);
  visops::bind_runs(m);
  visops::bind_targets(m);
}
