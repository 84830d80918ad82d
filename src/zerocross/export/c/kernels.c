/* The kernels of exported networks. The exporter copies those that a network uses, and the ones they depend on. */

/* ---- popcount */
#if defined(__POPCNT__) || defined(__aarch64__) || defined(__wasm__)
#define popcount(x) ((unsigned)__builtin_popcountll(x))
#else
/* Without a popcount instruction: sum pairs, nibbles and bytes of bits in parallel. */
static KERNEL unsigned popcount(uint64_t x)
{
    x -= (x >> 1) & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)((x * UINT64_C(0x0101010101010101)) >> 56);
}
#endif

/* ---- window_type */
/* A window that slides over an image: sizes of the image, elements between lines and between pixels, and the window
   itself. */
struct window {
    int32_t height, width, line, pixel, kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x;
};

/* The position of a window: its first pixel, and the range of its rows and columns that are inside the image. */
struct inside {
    int32_t y, x, y_begin, y_end, x_begin, x_end;
};

/* ---- look: window_type */
static KERNEL struct inside look(const struct window *g, int32_t row, int32_t column)
{
    struct inside in;
    in.y = row * g->stride_y - g->pad_y;
    in.x = column * g->stride_x - g->pad_x;
    in.y_begin = in.x_begin = 0;
    in.y_end = g->kernel_y;
    in.x_end = g->kernel_x;
    while (in.y_begin < in.y_end && in.y + in.y_begin * g->dilation_y < 0)
        in.y_begin++;
    while (in.x_begin < in.x_end && in.x + in.x_begin * g->dilation_x < 0)
        in.x_begin++;
    while (in.y_end > in.y_begin && in.y + (in.y_end - 1) * g->dilation_y >= g->height)
        in.y_end--;
    while (in.x_end > in.x_begin && in.x + (in.x_end - 1) * g->dilation_x >= g->width)
        in.x_end--;
    return in;
}

/* ---- taps_inside: window_type */
static KERNEL int32_t taps_inside(struct inside in)
{
    return (in.y_end - in.y_begin) * (in.x_end - in.x_begin);
}

/* ---- gather: look */
/* Gather the bits of a window inside the image, tap by tap, `bytes` per pixel. */
static KERNEL void gather(uint64_t *row, const uint8_t *bits, const struct window *g, struct inside in, int32_t bytes,
                          int32_t words)
{
    uint8_t *to = (uint8_t *)row;
    row[words - 1] = 0;
    for (int32_t i = 0; i < g->kernel_y; i++) {
        const uint8_t *from = bits + (in.y + i * g->dilation_y) * g->line + in.x * g->pixel;
        if (bytes == g->pixel && g->dilation_x == 1) {
            memcpy(to, from, (size_t)(g->kernel_x * bytes));
            to += g->kernel_x * bytes;
        } else {
            for (int32_t j = 0; j < g->kernel_x; j++, to += bytes)
                memcpy(to, from + j * g->dilation_x * g->pixel, (size_t)bytes);
        }
    }
}

/* ---- gather_border: look */
/* As gather, for a window that overlaps the border: the mask is 1 for taps inside the image. */
static KERNEL void gather_border(uint64_t *row, uint64_t *mask, const uint8_t *bits, const struct window *g,
                                 struct inside in, int32_t bytes, int32_t words)
{
    memset(row, 0, (size_t)words * 8);
    memset(mask, 0, (size_t)words * 8);
    for (int32_t i = in.y_begin; i < in.y_end; i++) {
        for (int32_t j = in.x_begin; j < in.x_end; j++) {
            const uint8_t *from = bits + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
            int32_t at = (i * g->kernel_x + j) * bytes;
            memcpy((uint8_t *)row + at, from, (size_t)bytes);
            memset((uint8_t *)mask + at, 255, (size_t)bytes);
        }
    }
}

/* ---- gather_ones: look */
/* As gather, with +1 for taps outside the image; `last` is the last byte of such a pixel. */
static KERNEL void gather_ones(uint64_t *row, const uint8_t *bits, const struct window *g, struct inside in, int32_t bytes,
                               uint8_t last, int32_t words)
{
    uint8_t *to = (uint8_t *)row;
    int32_t i, j;
    row[words - 1] = 0;
    for (i = 0; i < g->kernel_y; i++) {
        for (j = 0; j < g->kernel_x; j++, to += bytes) {
            if (i >= in.y_begin && i < in.y_end && j >= in.x_begin && j < in.x_end) {
                memcpy(to, bits + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel,
                       (size_t)bytes);
            } else {
                memset(to, 255, (size_t)bytes);
                to[bytes - 1] = last;
            }
        }
    }
}

/* ---- gather_group: look */
/* Gather the bits of some channels of a window, one by one. If `pad` is 1, taps outside the image are +1; otherwise
   they are masked out. Returns the number of taps that count; the mask is always written. */
static KERNEL int32_t gather_group(uint64_t *row, uint64_t *mask, const uint8_t *bits, const struct window *g,
                                   struct inside in, int32_t first, int32_t channels, int32_t pad, int32_t words)
{
    int32_t taps = 0, at = 0, i, j, c;
    memset(row, 0, (size_t)words * 8);
    memset(mask, 0, (size_t)words * 8);
    for (i = 0; i < g->kernel_y; i++) {
        for (j = 0; j < g->kernel_x; j++, at += channels) {
            int32_t y = in.y + i * g->dilation_y, x = in.x + j * g->dilation_x;
            int32_t outside = y < 0 || y >= g->height || x < 0 || x >= g->width;
            if (outside && !pad)
                continue;
            taps++;
            for (c = 0; c < channels; c++) {
                uint64_t bit = 1;
                if (!outside)
                    bit = (uint64_t)((bits[y * g->line + x * g->pixel + (first + c) / 8] >> ((first + c) % 8)) & 1);
                row[(at + c) / 64] |= bit << ((at + c) % 64);
                mask[(at + c) / 64] |= UINT64_C(1) << ((at + c) % 64);
            }
        }
    }
    return taps;
}

/* ---- count_type */
/* As wide as the vector lanes in which the processor counts bits. */
#if defined(__AVX512VPOPCNTDQ__)
typedef uint64_t count_type;
#else
typedef uint32_t count_type;
#endif

/* ---- dot: popcount count_type */
/* Sums of products of bits: total - 2 x (number of differing bits). Weights are stored in blocks of eight outputs, word
   by word; the remaining outputs follow one by one. */
static KERNEL void dot(int32_t *sums, const uint64_t *row, const uint64_t *weight, int32_t words, int32_t outputs,
                       int32_t total)
{
    int32_t o, k, l, blocks = outputs / 8 * 8;
    for (o = 0; o < blocks; o += 8) {
        count_type count[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (k = 0; k < words; k++, weight += 8)
            for (l = 0; l < 8; l++)
                count[l] += popcount(row[k] ^ weight[l]);
        for (l = 0; l < 8; l++)
            sums[o + l] = total - 2 * (int32_t)count[l];
    }
    for (o = blocks; o < outputs; o++) {
        count_type count = 0;
        for (k = 0; k < words; k++)
            count += popcount(row[k] ^ *weight++);
        sums[o] = total - 2 * (int32_t)count;
    }
}

/* ---- dot_masked: popcount count_type */
/* As dot, for the bits in a mask. */
static KERNEL void dot_masked(int32_t *sums, const uint64_t *row, const uint64_t *mask, const uint64_t *weight,
                              int32_t words, int32_t outputs, int32_t total)
{
    int32_t o, k, l, blocks = outputs / 8 * 8;
    for (o = 0; o < blocks; o += 8) {
        count_type count[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        for (k = 0; k < words; k++, weight += 8)
            for (l = 0; l < 8; l++)
                count[l] += popcount((row[k] ^ weight[l]) & mask[k]);
        for (l = 0; l < 8; l++)
            sums[o + l] = total - 2 * (int32_t)count[l];
    }
    for (o = blocks; o < outputs; o++) {
        count_type count = 0;
        for (k = 0; k < words; k++)
            count += popcount((row[k] ^ *weight++) & mask[k]);
        sums[o] = total - 2 * (int32_t)count;
    }
}

/* ---- to_reals */
static KERNEL void to_reals(float *values, const int32_t *sums, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] = (float)sums[i];
}

/* ---- multiply_add */
/* With ZEROCROSS_FMA and hardware support: rounded once, and faster. Otherwise rounded twice, the same everywhere. */
#if defined(ZEROCROSS_FMA) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
#define multiply_add(sum, x, y) __builtin_fmaf(x, y, sum)
#else
#define multiply_add(sum, x, y) ((sum) + (x) * (y))
#endif

/* ---- convolve_float: look multiply_add */
/* Convolution of real numbers; channels are `channel` elements apart. Weights are stored in blocks of 16 outputs, tap
   by tap and channel by channel; the last block has the remaining outputs. */
static KERNEL void convolve_float(float *values, const float *source, const struct window *g, struct inside in,
                                  int32_t inputs, int32_t channel, const float *weight, int32_t outputs)
{
    int32_t taps = g->kernel_y * g->kernel_x, o, i, j, c, l;
    for (o = 0; o < outputs; o += 16) {
        float sum[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        int32_t lanes = outputs - o < 16 ? outputs - o : 16;
        for (i = in.y_begin; i < in.y_end; i++) {
            for (j = in.x_begin; j < in.x_end; j++) {
                const float *from = source + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
                const float *w = weight + (i * g->kernel_x + j) * inputs * lanes;
                if (lanes == 16) {
                    for (c = 0; c < inputs; c++, w += 16)
                        for (l = 0; l < 16; l++)
                            sum[l] = multiply_add(sum[l], from[c * channel], (float)w[l]);
                } else {
                    for (c = 0; c < inputs; c++, w += lanes)
                        for (l = 0; l < lanes; l++)
                            sum[l] = multiply_add(sum[l], from[c * channel], (float)w[l]);
                }
            }
        }
        for (l = 0; l < lanes; l++)
            values[o + l] = sum[l];
        weight += taps * inputs * lanes;
    }
}

/* ---- quantise */
/* Quantise numbers to integers within -127..127, rounding half to even; returns the scale. */
static KERNEL float quantise(int8_t *codes, const float *source, int32_t count)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float largest = 0.0f, inverse;
    int32_t i;
    for (i = 0; i < count; i++) {
        float size = source[i] < 0.0f ? -source[i] : source[i];
        largest = size > largest ? size : largest;
    }
    inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
    for (i = 0; i < count; i++) {
        float code = (source[i] * inverse + round) - round;
        codes[i] = code >= -127.0f && code <= 127.0f ? (int8_t)code : (int8_t)0;
    }
    return largest / 127.0f;
}

/* ---- convolve_codes: look */
/* As convolve_float, with integer inputs and weights; `unit` is the scale of the inputs. */
static KERNEL void convolve_codes(float *values, const int8_t *source, const struct window *g, struct inside in,
                                  int32_t inputs, int32_t channel, const int8_t *weight, int32_t outputs, float unit)
{
    int32_t taps = g->kernel_y * g->kernel_x, o, i, j, c, l;
    for (o = 0; o < outputs; o += 16) {
        int32_t sum[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        int32_t lanes = outputs - o < 16 ? outputs - o : 16;
        for (i = in.y_begin; i < in.y_end; i++) {
            for (j = in.x_begin; j < in.x_end; j++) {
                const int8_t *from = source + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
                const int8_t *w = weight + (i * g->kernel_x + j) * inputs * lanes;
                if (lanes == 16) {
                    for (c = 0; c < inputs; c++, w += 16)
                        for (l = 0; l < 16; l++)
                            sum[l] += from[c * channel] * w[l];
                } else {
                    for (c = 0; c < inputs; c++, w += lanes)
                        for (l = 0; l < lanes; l++)
                            sum[l] += from[c * channel] * w[l];
                }
            }
        }
        for (l = 0; l < lanes; l++)
            values[o + l] = (float)sum[l] * unit;
        weight += taps * inputs * lanes;
    }
}

/* ---- convolve_bits: look */
/* As convolve_float, with weights -1 and +1: for each tap and channel, the bits of all outputs in `bytes` bytes. */
static KERNEL void convolve_bits(float *values, const float *source, const struct window *g, struct inside in,
                                 int32_t inputs, int32_t channel, const uint8_t *weight, int32_t outputs)
{
    int32_t bytes = (outputs + 7) / 8, i, j, c, o;
    for (o = 0; o < outputs; o++)
        values[o] = 0.0f;
    for (i = in.y_begin; i < in.y_end; i++) {
        for (j = in.x_begin; j < in.x_end; j++) {
            const float *from = source + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
            const uint8_t *w = weight + (i * g->kernel_x + j) * inputs * bytes;
            for (c = 0; c < inputs; c++, w += bytes) {
                float signs[2];
                signs[1] = from[c * channel];
                signs[0] = -signs[1];
                for (o = 0; o < outputs; o++)
                    values[o] += signs[(w[o / 8] >> (o % 8)) & 1];
            }
        }
    }
}

/* ---- depthwise_float: look */
/* Depthwise convolution: one filter per channel; weights are stored tap by tap. */
static KERNEL void depthwise_float(float *values, const float *source, const struct window *g, struct inside in,
                                   int32_t channels, const float *weight)
{
    int32_t i, j, c;
    for (c = 0; c < channels; c++)
        values[c] = 0.0f;
    for (i = in.y_begin; i < in.y_end; i++) {
        for (j = in.x_begin; j < in.x_end; j++) {
            const float *from = source + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
            const float *w = weight + (i * g->kernel_x + j) * channels;
            for (c = 0; c < channels; c++)
                values[c] += from[c] * (float)w[c];
        }
    }
}

/* ---- max_pool: look */
static KERNEL void max_pool(float *values, const float *source, const struct window *g, struct inside in, int32_t channels)
{
    int32_t i, j, c, first = 1;
    for (i = in.y_begin; i < in.y_end; i++) {
        for (j = in.x_begin; j < in.x_end; j++, first = 0) {
            const float *from = source + (in.y + i * g->dilation_y) * g->line + (in.x + j * g->dilation_x) * g->pixel;
            for (c = 0; c < channels; c++)
                values[c] = first || from[c] > values[c] ? from[c] : values[c];
        }
    }
    for (c = 0; first && c < channels; c++)
        values[c] = -1.0f / 0.0f; /* the maximum of no pixel: -infinity */
}

/* ---- avg_pool: look */
static KERNEL void avg_pool(float *values, const float *source, const struct window *g, struct inside in, int32_t channels,
                            int32_t count)
{
    int32_t i, j, c;
    for (c = 0; c < channels; c++)
        values[c] = 0.0f;
    for (i = in.y_begin; i < in.y_end; i++) {
        for (j = in.x_begin; j < in.x_end; j++) {
            const float *from = source + (in.y + i) * g->line + (in.x + j) * g->pixel;
            for (c = 0; c < channels; c++)
                values[c] += from[c];
        }
    }
    for (c = 0; c < channels; c++)
        values[c] /= (float)count;
}

/* ---- pool_count: look */
/* Number of pixels of an average pool, including padding. */
static KERNEL int32_t pool_count(const struct window *g, struct inside in)
{
    int32_t y = in.y + g->kernel_y < g->height + g->pad_y ? g->kernel_y : g->height + g->pad_y - in.y;
    int32_t x = in.x + g->kernel_x < g->width + g->pad_x ? g->kernel_x : g->width + g->pad_x - in.x;
    return y * x;
}

/* ---- copy */
static KERNEL void copy(float *values, const float *from, int32_t count)
{
    memcpy(values, from, (size_t)count * sizeof(float));
}

/* ---- scale */
static KERNEL void scale(float *values, const float *factor, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] *= factor[i];
}

/* ---- shift */
static KERNEL void shift(float *values, const float *term, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] += term[i];
}

/* ---- affine */
static KERNEL void affine(float *values, const float *factor, const float *term, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        float product = values[i] * factor[i];
        values[i] = product + term[i];
    }
}

/* ---- prelu */
static KERNEL void prelu(float *values, const float *slope, int32_t step, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] = values[i] >= 0.0f ? values[i] : values[i] * slope[i * step];
}

/* ---- relu */
static KERNEL void relu(float *values, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] = values[i] < 0.0f ? 0.0f : values[i];
}

/* ---- clamp */
static KERNEL void clamp(float *values, float low, float high, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        float raised = values[i] < low ? low : values[i];
        values[i] = raised > high ? high : raised;
    }
}

/* ---- pack_flags */
/* Pack eight bytes that are 0 or 1 into one byte; the first becomes the lowest bit. */
static KERNEL uint8_t pack_flags(const uint8_t *flags)
{
    uint64_t bytes;
    memcpy(&bytes, flags, 8);
    return (uint8_t)((bytes * UINT64_C(0x0102040810204080)) >> 56);
}

/* ---- pack_signs: pack_flags */
/* The bits [x >= 0], eight per byte. */
static KERNEL void pack_signs(uint8_t *bits, const float *values, int32_t count)
{
    int32_t i, l;
    for (i = 0; i + 8 <= count; i += 8) {
        uint8_t flags[8];
        for (l = 0; l < 8; l++)
            flags[l] = values[i + l] >= 0.0f;
        bits[i / 8] = pack_flags(flags);
    }
    if (i < count) {
        unsigned byte = 0;
        for (l = 0; i + l < count; l++)
            byte |= (unsigned)(values[i + l] >= 0.0f) << l;
        bits[i / 8] = (uint8_t)byte;
    }
}

/* ---- pack_shifted: pack_flags */
/* The bits [x + shift >= 0]. */
static KERNEL void pack_shifted(uint8_t *bits, const float *values, const float *term, int32_t count)
{
    int32_t i, l;
    for (i = 0; i + 8 <= count; i += 8) {
        uint8_t flags[8];
        for (l = 0; l < 8; l++)
            flags[l] = values[i + l] + term[i + l] >= 0.0f;
        bits[i / 8] = pack_flags(flags);
    }
    if (i < count) {
        unsigned byte = 0;
        for (l = 0; i + l < count; l++)
            byte |= (unsigned)(values[i + l] + term[i + l] >= 0.0f) << l;
        bits[i / 8] = (uint8_t)byte;
    }
}

/* ---- pack_thresholds_int16: pack_flags */
/* The bits [sum >= threshold]. */
static KERNEL void pack_thresholds_int16(uint8_t *bits, const int32_t *sums, const int16_t *threshold, int32_t count)
{
    int32_t i, l;
    for (i = 0; i + 8 <= count; i += 8) {
        uint8_t flags[8];
        for (l = 0; l < 8; l++)
            flags[l] = sums[i + l] >= threshold[i + l];
        bits[i / 8] = pack_flags(flags);
    }
    if (i < count) {
        unsigned byte = 0;
        for (l = 0; i + l < count; l++)
            byte |= (unsigned)(sums[i + l] >= threshold[i + l]) << l;
        bits[i / 8] = (uint8_t)byte;
    }
}

/* ---- unpack */
/* Bits as -1 and +1. */
static KERNEL void unpack(float *values, const uint8_t *bits, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        values[i] = (bits[i / 8] >> (i % 8)) & 1 ? 1.0f : -1.0f;
}

/* ---- transpose */
/* Transpose: target[column][row] = source[row][column]. */
static KERNEL void transpose(float *target, const float *source, int32_t rows, int32_t columns)
{
    for (int32_t column = 0; column < columns; column++)
        for (int32_t row = 0; row < rows; row++)
            target[column * rows + row] = source[row * columns + column];
}
