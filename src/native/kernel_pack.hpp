// Cutting references into chunks, and chunks into blocks and tiles.
#pragma once
#include <cstdint>
#include <vector>

#include "aligned.hpp"
#include "kernel.hpp"

namespace kdey {

struct References {
  Points points;
  const int64_t* offsets;
  int64_t n_classes;
  const double* weights;  // or null
};

// How a chunk is cut. Depends on the dimension alone, so that results do not depend on the calls'
// other sizes.
struct Layout {
  int64_t block;     // references per block ...
  int64_t largest;   // ... and at most, where blocks that are alike are merged
  int64_t capacity;  // references per chunk
  int lanes, tile;
  bool pack_tiles;
};
Layout make_layout(int64_t dim, int64_t block_size, const KernelIsa& isa, bool double_mode);

// The reference at which a chunk begins, and its class.
struct Place {
  int64_t label = 0, row = 0;
};

// One chunk after the other, in memory that is used again.
class Packer {
 public:
  Packer(const References& references, const Layout& layout, Place begin = {});
  bool next(int n_threads);  // packs the next chunk; false: there is none
  const Chunk& chunk() const { return chunk_; }
  Place end() const { return {class_, row_}; }                    // where the next chunk begins
  int64_t bytes() const;                                          // memory of the tables
  void locate(int64_t row, int32_t* block, int32_t* lane) const;  // -1, -1: not in this chunk

 private:
  struct Segment {
    int64_t label, begin, end;    // positions in order_
    std::vector<int64_t> blocks;  // their sizes
  };
  struct Moments {
    int64_t count;
    double squares;
    std::vector<double> sum;
    void add(const Moments& other);
  };
  void collect();
  int64_t take(int64_t label, int64_t capacity);
  void order_segment(Segment& segment);
  Moments moments(int64_t origin, int64_t p, int64_t size) const;
  static bool alike(const Moments& a, const Moments& b);
  void plan_blocks();
  int64_t tile_rows() const;
  void shape_tables();
  void pack_block(int b, std::vector<double>& rows);
  void fill_weights(int b);
  void fill_box(int b, double* rows);
  void fill_tiles(int b, const double* rows);
  void fill_tile(int b, const double* rows, int64_t used, float* out) const;

  References refs_;
  Layout layout_;
  int64_t class_ = 0, row_ = 0;  // where the next chunk begins
  int stride_ = 0;
  Chunk chunk_{};
  std::vector<Segment> segments_;
  std::vector<double> class_log_count_;
  std::vector<int64_t> order_, tile_offset_;
  std::vector<int32_t> first_, count_, label_, position_;
  int64_t chunk_begin_ = 0;
  Aligned<float> low_, high_, centre_, centre_rows_, radius2_, weight_span_, tiles_;
  Aligned<double> log_weight_, top_weight_, log_count_;
};

}  // namespace kdey
