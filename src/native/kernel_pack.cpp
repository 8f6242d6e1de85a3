#include "kernel_pack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_order.hpp"
#include "parallel.hpp"

namespace kdey {
namespace {
constexpr int64_t kTileBytes = 4 << 20;     // per chunk
constexpr int64_t kBlockBytes = 256 << 10;  // one block in float64
constexpr int64_t kChunkLanes = 32768;
constexpr int64_t kDefaultBlock = 96, kLargestBlock = 288;
// Neighbouring blocks become one where that is hardly more spread out than they are: bounds of
// either would skip about the same, and every block costs something for every query.
constexpr double kMergedSpread = 1.05;
constexpr int64_t kLargestTile = 64;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
}  // namespace

Layout make_layout(int64_t dim, int64_t block_size, const KernelIsa& isa, bool double_mode) {
  int64_t fits = std::max<int64_t>(32, kBlockBytes / (8 * dim) / 32 * 32);
  int64_t block = block_size > 0 ? block_size : std::min(kDefaultBlock, fits);
  int64_t lanes = std::min(kChunkLanes, kTileBytes / (4 * (dim + 2)));
  int64_t largest = block;
  if (block_size == 0 && !double_mode) largest = std::max(block, std::min(kLargestBlock, fits));
  lanes = std::max(lanes, round_up(block, isa.tile));
  return {block, largest, lanes, isa.lanes, isa.tile, !double_mode};
}

Packer::Packer(const References& references, const Layout& layout, Place begin)
    : refs_(references), layout_(layout), class_(begin.label), row_(begin.row),
      class_log_count_(references.n_classes) {
  for (int64_t i = 0; i < refs_.n_classes; ++i) {
    int64_t size = refs_.offsets[i + 1] - refs_.offsets[i];
    class_log_count_[i] = std::log2(static_cast<double>(std::max<int64_t>(size, 1)));
  }
}

bool Packer::next(int n_threads) {
  collect();
  if (segments_.empty()) return false;
  parallel_for(static_cast<int64_t>(segments_.size()), n_threads,
               [&](int64_t s) { order_segment(segments_[s]); });
  plan_blocks();
  shape_tables();
  for (size_t p = 0; p < order_.size(); ++p)
    position_[order_[p] - chunk_begin_] = static_cast<int32_t>(p);
  constexpr int64_t run = 8;
  parallel_for((chunk_.n_blocks + run - 1) / run, n_threads, [&](int64_t r) {
    std::vector<double> rows;
    int64_t end = std::min<int64_t>(chunk_.n_blocks, (r + 1) * run);
    for (int64_t b = r * run; b < end; ++b) pack_block(static_cast<int>(b), rows);
  });
  return true;
}

// Takes the references of the next chunk, those of weight zero left out.
void Packer::collect() {
  segments_.clear();
  order_.clear();
  int64_t lanes_left = layout_.capacity, blocks_left = kMaxBlocks;
  const int64_t block_lanes = round_up(layout_.block, layout_.tile);
  chunk_begin_ = row_;
  while (class_ < refs_.n_classes) {
    const int64_t blocks = std::min(blocks_left, lanes_left / block_lanes);
    if (blocks == 0) break;
    const int64_t size = take(class_, blocks * layout_.block);
    blocks_left -= (size + layout_.block - 1) / layout_.block;
    lanes_left -= size / layout_.block * block_lanes + round_up(size % layout_.block, layout_.tile);
    if (row_ == refs_.offsets[class_ + 1]) ++class_;
  }
  position_.assign(row_ - chunk_begin_, -1);
}

int64_t Packer::take(int64_t label, int64_t capacity) {
  const int64_t begin = order_.size();
  for (; row_ < refs_.offsets[label + 1] && capacity > 0; ++row_) {
    if (refs_.weights && !(refs_.weights[row_] > 0)) continue;
    order_.push_back(row_);
    --capacity;
  }
  const int64_t end = order_.size();
  if (begin < end) segments_.push_back({label, begin, end, {}});
  return end - begin;
}

void Packer::plan_blocks() {
  first_.clear(), count_.clear(), label_.clear(), tile_offset_.clear();
  int64_t offset = 0;
  for (const Segment& segment : segments_) {
    int64_t p = segment.begin;
    for (const int64_t size : segment.blocks) {
      first_.push_back(static_cast<int32_t>(p));
      count_.push_back(static_cast<int32_t>(size));
      label_.push_back(static_cast<int32_t>(segment.label));
      tile_offset_.push_back(offset);
      p += size;
      offset += round_up(size, layout_.tile) * tile_rows();
    }
  }
}

int64_t Packer::tile_rows() const {
  return layout_.pack_tiles ? refs_.points.dim + 1 + (refs_.weights != nullptr) : 0;
}

void Packer::shape_tables() {
  int64_t dim = refs_.points.dim;
  Chunk& c = chunk_;
  c.references = refs_.points;
  c.n_blocks = static_cast<int>(first_.size());
  c.stride = stride_ = static_cast<int>(round_up(c.n_blocks, layout_.lanes));
  c.padded_dim = static_cast<int>(round_up(dim, layout_.lanes));
  int64_t floats = tile_offset_.back() + round_up(count_.back(), layout_.tile) * tile_rows();
  for (auto* table : {&low_, &high_, &centre_}) {
    std::fill_n(table->reserve(dim * stride_), dim * stride_, 0.0f);
  }
  for (auto* table : {&radius2_, &weight_span_}) {
    std::fill_n(table->reserve(stride_), stride_, 0.0f);
  }
  std::fill_n(log_count_.reserve(stride_), stride_, 0.0);
  // Padding blocks must never be the nearest.
  std::fill_n(top_weight_.reserve(stride_), stride_, -std::numeric_limits<double>::infinity());
  centre_rows_.reserve(c.n_blocks * c.padded_dim);
  tiles_.reserve(std::max<int64_t>(floats, 1));
  if (refs_.weights) log_weight_.reserve(order_.size());
  c.order = order_.data(), c.first = first_.data(), c.count = count_.data();
  c.label = label_.data(), c.tile_offset = tile_offset_.data();
  c.low = low_.data(), c.high = high_.data(), c.centre = centre_.data();
  c.centre_rows = centre_rows_.data(), c.radius2 = radius2_.data();
  c.log_weight = refs_.weights ? log_weight_.data() : nullptr;
  c.top_weight = top_weight_.data(), c.weight_span = weight_span_.data();
  c.log_count = log_count_.data();
  c.tiles = layout_.pack_tiles ? tiles_.data() : nullptr;
}

// Orders the references of a class and cuts them into blocks.
void Packer::order_segment(Segment& segment) {
  SpatialOrder order(refs_.points, layout_.block);
  order(order_.data() + segment.begin, segment.end - segment.begin);
  Moments last{};
  for (int64_t p = segment.begin; p < segment.end; p += layout_.block) {
    const int64_t size = std::min(layout_.block, segment.end - p);
    if (layout_.largest > layout_.block) {
      Moments here = moments(order_[segment.begin], p, size);
      if (!segment.blocks.empty() && last.count + size <= layout_.largest && alike(last, here)) {
        last.add(here);
        segment.blocks.back() += size;
        continue;
      }
      last = std::move(here);
    }
    segment.blocks.push_back(size);
  }
}

void Packer::Moments::add(const Moments& other) {
  count += other.count, squares += other.squares;
  for (size_t d = 0; d < sum.size(); ++d) sum[d] += other.sum[d];
}

// Sums over `size` references from position p on, counted from the reference `origin`.
Packer::Moments Packer::moments(int64_t origin, int64_t p, int64_t size) const {
  const int64_t dim = refs_.points.dim;
  Moments m{size, 0.0, std::vector<double>(dim, 0.0)};
  for (int64_t i = p; i < p + size; ++i)
    for (int64_t d = 0; d < dim; ++d) {
      const double v = refs_.points.at(order_[i], d) - refs_.points.at(origin, d);
      m.sum[d] += v;
      m.squares += v * v;
    }
  return m;
}

// Whether two runs of references together are hardly more spread out than each of them.
bool Packer::alike(const Moments& a, const Moments& b) {
  double apart = a.squares + b.squares, together = apart;
  for (size_t d = 0; d < a.sum.size(); ++d) {
    const double sum = a.sum[d] + b.sum[d];
    apart -= a.sum[d] * a.sum[d] / a.count + b.sum[d] * b.sum[d] / b.count;
    together -= sum * sum / (a.count + b.count);
  }
  return together <= kMergedSpread * apart;
}

// Copies the references of block b, in float64, to `rows` (count, dim).
template <class T>
void copy_rows(const T* data, const int64_t* order, int64_t count, int64_t dim, double* rows) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t d = 0; d < dim; ++d) rows[i * dim + d] = data[order[i] * dim + d];
}

void Packer::pack_block(int b, std::vector<double>& rows) {
  const int64_t dim = refs_.points.dim, count = count_[b];
  const int64_t* order = order_.data() + first_[b];
  rows.resize(std::max<int64_t>(rows.size(), (count + 3) * dim));
  if (refs_.points.is_double)
    copy_rows(static_cast<const double*>(refs_.points.data), order, count, dim, rows.data());
  else
    copy_rows(static_cast<const float*>(refs_.points.data), order, count, dim, rows.data());
  fill_weights(b);
  fill_box(b, rows.data());
  if (layout_.pack_tiles) fill_tiles(b, rows.data());
  log_count_.data()[b] = class_log_count_[label_[b]];
}

void Packer::fill_weights(int b) {
  double top = 0.0, bottom = 0.0;
  if (refs_.weights) {
    top = -std::numeric_limits<double>::infinity(), bottom = -top;
    for (int p = first_[b]; p < first_[b] + count_[b]; ++p) {
      double value = log_weight_.data()[p] = std::log2(refs_.weights[order_[p]]);
      top = std::max(top, value), bottom = std::min(bottom, value);
    }
  }
  top_weight_.data()[b] = top;
  weight_span_.data()[b] = static_cast<float>(top - bottom);
}

// The bounding box and the centre. The box is widened by what rounding a query and a corner to
// float32 can lose, so that the distance to it never comes out too large (nearest2 in
// isa/kernel_item.cpp allows for the relative errors of the sum).
void Packer::fill_box(int b, double* rows) {
  constexpr double slack = 4.0 / (1 << 24);
  const int64_t dim = refs_.points.dim, count = count_[b];
  double *low = rows + count * dim, *high = low + dim, *sum = high + dim;
  for (int64_t d = 0; d < dim; ++d) low[d] = high[d] = sum[d] = rows[d];
  for (int64_t i = 1; i < count; ++i) {
    const double* y = rows + i * dim;
    for (int64_t d = 0; d < dim; ++d) {
      low[d] = y[d] < low[d] ? y[d] : low[d];
      high[d] = y[d] > high[d] ? y[d] : high[d];
      sum[d] += y[d];
    }
  }
  float* centre = centre_rows_.data() + int64_t{b} * chunk_.padded_dim;
  std::fill_n(centre, chunk_.padded_dim, 0.0f);
  for (int64_t d = 0; d < dim; ++d) {
    centre[d] = static_cast<float>(sum[d] / static_cast<double>(count));
    low_.data()[d * stride_ + b] = static_cast<float>(low[d] - slack * std::abs(low[d]));
    high_.data()[d * stride_ + b] = static_cast<float>(high[d] + slack * std::abs(high[d]));
    centre_.data()[d * stride_ + b] = centre[d];
  }
}

void Packer::fill_tiles(int b, const double* rows) {
  const int64_t dim = refs_.points.dim, count = count_[b], tile = layout_.tile;
  const int64_t tile_rows = dim + 1 + (refs_.weights != nullptr);
  float* out = tiles_.data() + tile_offset_[b];
  float radius2 = 0.0f;
  for (int64_t start = 0; start < count; start += tile, out += tile * tile_rows) {
    const int64_t used = std::min(tile, count - start);
    fill_tile(b, rows + start * dim, used, out);
    for (int64_t i = 0; i < used; ++i) radius2 = std::max(radius2, -2.0f * out[dim * tile + i]);
    if (!refs_.weights) continue;
    for (int64_t i = 0; i < tile; ++i) {
      int64_t p = first_[b] + start + std::min(i, used - 1);
      double value = log_weight_.data()[p] - top_weight_.data()[b];
      out[(dim + 1) * tile + i] = static_cast<float>(value);
    }
  }
  radius2_.data()[b] = radius2;
}

// One tile: the centred rows dimension-major, their norms, and padding far away.
void Packer::fill_tile(int b, const double* rows, int64_t used, float* out) const {
  const int64_t dim = refs_.points.dim, tile = layout_.tile;
  const float* centre = centre_rows_.data() + int64_t{b} * chunk_.padded_dim;
  double norm2[kLargestTile] = {};
  for (int64_t d = 0; d < dim; ++d) {
    float* lane = out + d * tile;
    for (int64_t i = 0; i < used; ++i) {
      lane[i] = static_cast<float>(rows[i * dim + d] - centre[d]);
      norm2[i] += static_cast<double>(lane[i]) * lane[i];
    }
    const float far = d == 0 ? std::numeric_limits<float>::max() : 0.0f;
    for (int64_t i = used; i < tile; ++i) lane[i] = far;
  }
  for (int64_t i = 0; i < tile; ++i)
    out[dim * tile + i] =
        i < used ? static_cast<float>(-0.5 * norm2[i]) : -std::numeric_limits<float>::infinity();
}

int64_t Packer::bytes() const {
  size_t sum = segments_.capacity() * sizeof(Segment);
  for (const auto* table : {&order_, &tile_offset_}) sum += table->capacity() * sizeof(int64_t);
  for (const auto* table : {&first_, &count_, &label_, &position_})
    sum += table->capacity() * sizeof(int32_t);
  for (const auto* table :
       {&low_, &high_, &centre_, &centre_rows_, &radius2_, &weight_span_, &tiles_})
    sum += table->bytes();
  for (const auto* table : {&log_weight_, &top_weight_, &log_count_}) sum += table->bytes();
  return static_cast<int64_t>(sum + class_log_count_.capacity() * sizeof(double));
}

void Packer::locate(int64_t row, int32_t* block, int32_t* lane) const {
  *block = *lane = -1;
  if (row < chunk_begin_ || row >= chunk_begin_ + static_cast<int64_t>(position_.size())) return;
  int32_t p = position_[row - chunk_begin_];
  if (p < 0) return;
  auto after = std::upper_bound(first_.begin(), first_.end(), p);
  *block = static_cast<int32_t>(after - first_.begin()) - 1;
  *lane = p - first_[*block];
}

}  // namespace kdey
