// Class-wise Gaussian kernel log-sums: the data shared by the planner (kernel*.cpp) and the
// arithmetic (isa/kernel_item.cpp).
//
// References are taken in chunks of bounded size. Within a chunk each class is ordered spatially
// and cut into blocks (kernel_pack). Queries are ordered spatially too and taken in groups; a
// group meets every block of the chunk (isa/kernel_item.cpp). All exponents are base 2: with
// scale_h = log2(e) / h^2 a pair at distance d contributes 2^(log2 w - scale_h d^2 / 2). Per query
// and bandwidth a shift s, near the row's largest exponent, keeps sums of 2^(e - s) in range.
//
// Every decision about a query (shift, blocks skipped, float64 instead of float32) depends on this
// query and the references alone, so its result is the same to the last bit in any company.
#pragma once
#include <cstdint>

namespace kdey {

constexpr int kGroup = 120;         // queries per work item
constexpr int kMaxBandwidths = 32;  // bandwidths per pass: bounds the scratch memory
constexpr int kMaxBlocks = 512;     // blocks per chunk

struct Points {
  const void* data;  // (count, dim) row-major
  bool is_double;
  int64_t dim;
  double at(int64_t row, int64_t d) const {
    int64_t p = row * dim + d;
    return is_double ? static_cast<const double*>(data)[p] : static_cast<const float*>(data)[p];
  }
};

// A chunk of references in blocks that never straddle classes. The block tables are padded to
// `stride` blocks; "transposed" ones have a row of `stride` blocks per dimension.
struct Chunk {
  Points references;
  int n_blocks, stride;
  int padded_dim;        // dim rounded up to whole vectors: row length of `centre_rows`
  const int64_t* order;  // reference at each position of the chunk
  const int32_t* first;  // [stride] position of each block's first reference
  const int32_t* count;  // [stride] references in the block
  const int32_t* label;  // [stride] class of the block
  const float* low;      // transposed bounding boxes, rounded outwards
  const float* high;
  const float* centre;         // transposed centres
  const float* centre_rows;    // [n_blocks][padded_dim]
  const float* radius2;        // [stride] largest squared distance from the centre
  const double* log_weight;    // [positions] log2 of each weight, or null where unweighted
  const double* top_weight;    // [stride] largest log2 weight of the block (0 where unweighted)
  const float* weight_span;    // [stride] largest minus smallest log2 weight
  const double* log_count;     // [stride] log2 of the number of references of the block's class
  const int64_t* tile_offset;  // [stride] where the block starts in `tiles`
  // Tiles of `tile` references, dimension-major: dim rows of y - centre, one of -|y - centre|^2/2
  // (-inf in padding lanes, whose first coordinate is as large as float32 goes), and where weighted
  // one of log2 w - top_weight. Null in double mode.
  const float* tiles;
};

struct Problem {
  Points queries;
  int64_t n_queries, n_classes;
  int n_bandwidths;
  const double* scale;  // [n_bandwidths] log2(e) / h^2
  bool double_mode, skip;
  bool resumed;  // out already holds the log-sums of earlier chunks
  double* out;   // [n_bandwidths][n_queries][n_classes]
};

// Memory of one worker, for one group of queries; see isa/kernel_item.cpp.
struct Scratch {
  float* x_high;    // [kGroup][padded_dim] the queries as float32 ...
  float* x_low;     // ... and what that rounding left
  double* x;        // [kGroup][dim]
  float* nearest2;  // [kGroup][stride] lower bound of the squared distance to the block
  float* norm2;     // [kGroup][stride] squared distance to the block's centre
  uint8_t* mode;    // [stride][width] how each query meets each block
  int width;        // queries there is room for, in whole words of modes
  double* cap;      // [stride]
  double* shift;    // [n_bandwidths][kGroup]
  float* centred;   // queries of one batch minus a centre
  float* bias;      // [n_bandwidths][largest batch, in whole vectors]
  float* sums;      // [n_bandwidths][largest batch][vector]
  double* tops;     // [n_bandwidths][vector]
  double* block;    // [dim][padded block size] one block in float64
  int block_stride;
  int64_t block_held;          // which block that is, -1: none
  int32_t skip_block[kGroup];  // the block and lane of the excluded reference, -1: none
  int32_t skip_lane[kGroup];
  int32_t active[kMaxBandwidths];  // the bandwidths that matter to a batch
};

struct Group {
  const int64_t* rows;  // the queries
  int size;             // <= kGroup
};

// What one instruction set offers.
struct KernelIsa {
  int lanes;  // floats per vector
  int tile;   // references per tile
  int batch;  // largest number of queries per register block
  void (*run_group)(const Problem&, const Chunk&, const Group&, Scratch&);
};

namespace baseline { extern const KernelIsa kernel; }
namespace avx2 { extern const KernelIsa kernel; }
namespace avx512 { extern const KernelIsa kernel; }

}  // namespace kdey
