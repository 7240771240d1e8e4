// Where the pixels of one sample go, while a chain of transforms is drawn.
#pragma once

namespace visops {

// The image that a transform receives. Sides are whole numbers.
struct Canvas {
  double height, width;
};

// Coordinates are in the half-pixel convention: a whole image spans 0, 0 to W, H.
//
// NOTE [ Ties ]
// After a resize from m to n pixels, pixel i lies at (i + 1/2) m / n, with whole images from 0 to
// m. Where that is a whole number k, it lies between pixels k - 1 and k, and nearest takes k. A
// rounding error would take either. All other pixels are 1 / 2n or more away from whole numbers, so
// a shift by 1 / 4n towards larger coordinates settles ties and changes nothing else: kernels'
// errors are smaller for images of up to 20,000 pixels. Only nearest sampling takes this shift;
// what boxes and points see is the matrix itself.
struct GeometryState {
  double matrix[9] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0};  // source to canvas
  bool projective = false;                                           // else the last row is 0, 0, 1
  bool aligned = true;  // rows stayed horizontal and columns vertical
  bool has_window = false;
  double ties[2] = {};    // what nearest sampling adds to the shift
  double window[4] = {};  // x1, y1, x2, y2: what an exact chain may still show of the source
  Canvas source = {}, canvas = {};

  explicit GeometryState(const Canvas& image) : source(image), canvas(image) {}

  // x' = x_scale x + x_shift, and likewise y. `cuts`: some of the image before may be lost, which
  // an exact chain remembers.
  void scale(double x_scale, double y_scale, double x_shift, double y_shift, const Canvas& after,
             bool exact, bool cuts);
  void shift(double x, double y, const Canvas& after, bool exact, bool cuts);
  // x' = a x + b y + c, y' = d x + e y + f, in this order.
  void affine(const double (&m)[6], const Canvas& after);
  void perspective(const double (&m)[9], const Canvas& after);

  // What a step leaves that does not apply to this sample: as before it, but in the form that it
  // has for the samples of the batch to which the step applies. A batch has one form.
  void skip(const GeometryState& before);

  bool is_identity() const;
  // Whether nothing moves, and nothing is cut.
  bool is_still() const { return is_identity() && !has_window; }

  // How many rows of the matrix say something.
  int rows() const { return projective ? 3 : 2; }
  // Writes the rows by which pixels are sampled: nearest sampling takes the ties.
  void write_rows(bool nearest, double* out) const;

 private:
  void project(const double (&m)[9]);
  void show(const Canvas& after, bool exact, bool cuts);
};

}  // namespace visops
