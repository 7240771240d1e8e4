#include "core/numbers/assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace visops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows are no more than columns.
class Solver {
 public:
  Solver(const double* costs, int64_t rows, int64_t columns)
      : costs_(costs),
        rows_(rows),
        columns_(columns),
        row_potential_(rows, 0.0),
        column_potential_(columns, 0.0),
        distance_(columns),
        before_(columns),
        seen_row_(rows),
        seen_column_(columns),
        left_(columns),
        column_of_(rows, -1),
        row_of_(columns, -1) {}

  bool solve() {
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t end = shortest_path(row);
      if (end < 0) return false;
      flip(row, end);
    }
    return true;
  }

  const std::vector<int64_t>& column_of() const { return column_of_; }

 private:
  // The free column that the shortest alternating path from a free row ends at; -1: there is none.
  // Potentials become those with which the path costs nothing.
  int64_t shortest_path(int64_t first) {
    std::fill(seen_row_.begin(), seen_row_.end(), false);
    std::fill(seen_column_.begin(), seen_column_.end(), false);
    std::fill(distance_.begin(), distance_.end(), kInfinity);
    std::iota(left_.rbegin(), left_.rend(), int64_t{0});
    int64_t count = columns_, row = first;
    double least = 0.0;
    while (true) {
      seen_row_[row] = true;
      int64_t chosen = -1;
      double nearest = kInfinity;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t column = left_[k];
        const double length = least + costs_[row * columns_ + column] - row_potential_[row] -
                              column_potential_[column];
        if (length < distance_[column]) {
          distance_[column] = length;
          before_[column] = row;
        }
        const bool is_free = row_of_[column] < 0;
        if (distance_[column] < nearest || (distance_[column] == nearest && is_free)) {
          nearest = distance_[column];
          chosen = k;
        }
      }
      if (nearest == kInfinity) return -1;
      least = nearest;
      const int64_t column = left_[chosen];
      seen_column_[column] = true;
      left_[chosen] = left_[--count];
      if (row_of_[column] < 0) {
        update_potentials(first, least);
        return column;
      }
      row = row_of_[column];
    }
  }

  void update_potentials(int64_t first, double least) {
    row_potential_[first] += least;
    for (int64_t row = 0; row < rows_; ++row) {
      if (seen_row_[row] && row != first) {
        row_potential_[row] += least - distance_[column_of_[row]];
      }
    }
    for (int64_t column = 0; column < columns_; ++column) {
      if (seen_column_[column]) column_potential_[column] -= least - distance_[column];
    }
  }

  // Assigns each row of a path to the column after it.
  void flip(int64_t first, int64_t column) {
    while (true) {
      const int64_t row = before_[column];
      row_of_[column] = row;
      std::swap(column_of_[row], column);
      if (row == first) return;
    }
  }

  const double* costs_;
  int64_t rows_, columns_;
  std::vector<double> row_potential_, column_potential_, distance_;
  std::vector<int64_t> before_;
  std::vector<uint8_t> seen_row_, seen_column_;
  std::vector<int64_t> left_;  // columns that no path has reached
  std::vector<int64_t> column_of_, row_of_;
};

}  // namespace

bool solve_assignment(const double* costs, int64_t rows, int64_t columns,
                      std::vector<int64_t>* row_of_pair, std::vector<int64_t>* column_of_pair) {
  std::vector<double> turned;
  const bool turns = columns < rows;
  if (turns) {
    turned.resize(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < columns; ++k) turned[k * rows + i] = costs[i * columns + k];
    }
    costs = turned.data();
    std::swap(rows, columns);
  }
  Solver solver(costs, rows, columns);
  if (!solver.solve()) return false;
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  *row_of_pair = order;
  *column_of_pair = solver.column_of();
  if (!turns) return true;
  const std::vector<int64_t>& found = solver.column_of();  // rows of the matrix as it came
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return found[a] < found[b]; });
  for (size_t i = 0; i < order.size(); ++i) (*row_of_pair)[i] = found[order[i]];
  *column_of_pair = order;
  return true;
}

}  // namespace visops
