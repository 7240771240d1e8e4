// A chain on one sample, or on a batch of images, in one call: walk the sample, draw and compose
// plans, run the passes on the images, move the targets, rebuild the sample.
//
// NOTE [ Pipeline ]
// A Dataset calls its chain with one small sample after another. An outline says what the entries
// of a sample are; what values may change, such as shapes, dtypes and canvas sizes, is checked for
// each. Whatever is unusual, or wrong, goes to the chain's other executor, which runs torch's
// operators (ops/transforms/chain/execute.py), gives the same bits, and says what is wrong.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "python/chain/chain.h"
#include "python/chain/outline.h"
#include "python/torch_api.h"

namespace visops {

// The options of a chain that a call reads.
struct PipelineOptions {
  py::object layout;  // "CHW", "HWC" or None: what shapes tell
  bool frames;        // plain tensors of four dimensions are videos
  bool indices;       // PIL images of a palette are their numbers
  bool exact;
  bool moves_targets;  // whether all that its options do to targets is to move them,
  bool clips_boxes;    // and to clip boxes,
  bool drops_boxes;    // and then to drop those with shorter sides or a smaller area than these
  double least_side, least_area;
  bool pads;          // whether a pass shows the image itself outside the image
  bool pure_targets;  // they come out as plain tensors
  int64_t mask_fill, other_mask_fill;
  double keypoint_shift;
  bool has_image_type;  // images come out as something else than they are
  bool reads_files;
  bool channels_last;  // the memory format of results
};

// What a call has drawn, as it is recorded.
struct Recorded {
  py::list params;             // of each transform
  std::vector<int64_t> sizes;  // [B, 2] heights and widths before the first one
};

// The image of a file's content, as a chain makes it by these plans; null: it is no file for C++,
// or damaged. `recorded` may be null.
py::object load_file_image(py::handle file_pass, py::handle content, const SampleKey& key,
                           std::vector<ChainPlan>* plans, Recorded* recorded);

class Pipeline {
 public:
  Pipeline(const py::dict& kinds, PipelineOptions options)
      : outlines_(kinds), options_(std::move(options)) {}

  // Transforms a sample. Returns (True, result), with `record` (True, (result, Parameters)); or
  // (False, key): run_passes() has to do it, by this key if it is not None.
  py::tuple run(py::handle chain, py::handle sample, py::handle generator, py::handle index,
                py::handle epoch, bool record);

  // Moves what is beside a file whose image was made by plans. `sample` has no content in the
  // file's place, but bytes; whole() returns it with its content. None: Python has to do it.
  py::object follow(py::handle chain, py::handle sample, const py::list& plans,
                    const py::object& image, const py::object& whole);

  // Transforms a sample of a loader, of which nothing but the image is new memory: into `image`, a
  // tensor [C, H, W] or None, or, if that doesn't fit, into what memory(0, (C, H, W), dtype)
  // returns. Returns (result, image); None: run_passes() has to do it.
  py::object load(py::handle chain, py::handle sample, py::handle seed, py::handle epoch,
                  py::handle index, py::object image, const py::object& memory);

 private:
  struct Call;
  struct Images;
  struct Target;
  // Whether C++ moves targets as the options say.
  bool moves_targets() const { return options_.moves_targets && !options_.pure_targets; }
  // Reads what is beside a file's image, and moves it by plans. Null: Python has to do it.
  py::object moved_beside(Call* call, std::vector<ChainPlan> plans, const py::object& image) const;
  py::tuple run_file(py::handle chain, py::handle sample, py::handle generator, py::handle index,
                     py::handle epoch, bool record);
  py::object file_pass_for(py::handle chain);
  bool read_images(py::handle value, const std::string& name, Images* images) const;
  bool read_image(py::handle value, const std::string& name, Images* images) const;
  bool has_channels_last(const TensorView& view, bool is_array, bool* last) const;
  std::shared_ptr<const Passes> passes_for(py::handle chain, const Images& images);
  bool read_targets(const Outline& outline, const std::vector<py::object>& holders,
                    const Images& images, std::vector<Target>* targets) const;
  bool read_target(const Entry& entry, py::handle value, const Images& images,
                   Target* target) const;
  std::vector<SampleKey> draw_keys(py::handle chain, py::handle generator, py::handle index,
                                   py::handle epoch, size_t batch) const;
  // The steps of a call: what its sample holds, then plans for it. False: Python has to do it.
  bool walk(py::handle chain, py::handle sample, Call* call);
  bool draw(const std::vector<SampleKey>& keys, bool record, Call* call) const;
  bool takes_plans(Call* call) const;
  // Drops boxes that are too small from moved targets, and what belongs to them.
  void drop_boxes(const Call& call, std::vector<py::object>* moved, std::vector<py::object>* seen,
                  std::vector<py::object>* copies) const;
  // A copy of a sample with an image and targets that have moved.
  py::object rebuilt(const Call& call, const py::object& image) const;

  Outlines outlines_;
  PipelineOptions options_;
  std::mutex mutex_;
  std::map<std::pair<DType, int64_t>, std::shared_ptr<const Passes>> passes_;
  py::object file_pass_;  // a FilePass, or None: Python has to read files; null: not asked yet
};

}  // namespace visops
