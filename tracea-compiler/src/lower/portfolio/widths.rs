//! How wide and how tall the tiles are that portfolios try.

/// Columns of the widest tiles, and of others beside their halves, which leave fewer over where those do.
pub const WIDE: u32 = 256;
pub const HALF: u32 = 128;
pub const THREE_QUARTERS: u32 = 192;
/// The same for products that are little else: many sizes fill waves by one of these alone. Measured on an H100, the fastest of all schedules of 52
/// products of f16, no one chosen for it: without these 0.972 of what it is with them and 112 and 224 in the geometric mean, by 160 alone 0.988, by 144
/// and 160 0.995, by these four 0.998; 896 x 5120 x 3072 takes 42.3 µs by 144 columns, and 46.9 without.
pub const BETWEEN: [u32; 4] = [208, 176, 160, 144];
/// And of tiles that pairs of blocks take as well as single ones, for rows of operands that begin amid lines of memory: twice as many lines come from
/// L2, of which a pair asks for fewer. Measured on an H100: 3000³ takes 92.6 µs by pairs of 128 x 192, 103 without, whose rows are copied first;
/// 600 x 7400 x 3080 60 by pairs of 160 rows, 65 by others. And for two tiles of rows that share large weights: 200 x 8192 x 8192 takes 42.3 µs on an H200 by
/// pairs of 104, and 43.2 by single ones, 136 x 8192 x 8192 (`nn`) 36.7 by pairs of 80, and 38.6.
pub const PAIRED: [u32; 6] = [256, 208, 192, 160, 104, 80];
/// The same instead of half as many, for few tiles. Measured on an H200: 256 x 5120 x 3072 takes 17.0 µs by 80 columns, and 20.9 without, 896 x
/// 1536 x 1536 12.0 by 96, and 13.2; over 28 products of up to 9 million results, the fastest takes 0.979 of what it did in the geometric mean.
pub const BETWEEN_NARROW: [u32; 2] = [96, 80];
/// And rows of a product the other way round. Measured on an H200 with f16: 192 x 6144 x 4096 takes 22.7 µs by 96 of its rows and 128 columns, and 25.2
/// without, 3072 x 512 x 4096 23.6 and 26.0; 300 x 5120 x 13824 63.9 by 104, and 71.8 without, 200 x 7168 x 7168 34.8 and 38.8, 300 x 8192 x 8192 56.5 by
/// 152, and 58.4, 224 x 7168 x 7168 38.1 by 112, and 41.8, 264 x 5120 x 13824 (`nn`) 54.9 by 88, and 59.0, 344 x 5120 x 13824 73.3 by 120, and 78.1, 264 x
/// 8192 x 8192 51.8 by 136, and 54.0.
pub const FEW_MORE: [u32; 8] = [152, 136, 120, 112, 104, 96, 88, 80];
/// The same beside 192 columns, three warpgroups', and beside 64, one warpgroup's. Measured on an H100 with f16, over 41 products of 136 to 1096 rows
/// and two ways to lie in memory: by these and by 80 rows beside 128 columns the fastest of all takes 0.978 of what it did in the geometric mean; 300 x 12288
/// x 4096 46.1 µs by 160 rows, 53.7 without, 392 x 12288 x 8192 123 by 112, 136 without. On an H200, 200 x 12288 x 4096 (`nn`) takes 32.3 µs by 104, and
/// 34.3 by 112, 344 x 6144 x 6144 (`nn`) 38.9 by 88, and 44.5 by 104, 264 x 12288 x 4096 40.1 by 136, and 41.8 by 144, 264 x 6144 x 6144 (`nn`) 34.2 by 72, and
/// 36.7.
pub const OF_THREE: [u32; 8] = [160, 144, 136, 112, 104, 88, 80, 72];
pub const OF_ONE: u32 = 80;
/// The same for warpgroups that take turns. Measured on an H200 with f16: 4096 x 1280 x 1280 takes 22.7 µs by 160 columns, and 23.3 without, 5120 x 1280
/// x 768 19.5 by 144, and 20.4.
pub const IN_TURN: [u32; 2] = [160, 144];
/// And where two products lie side by side, with half of the columns each.
pub const LITTLE_LESS: u32 = 112;
pub const BETWEEN_SIDE_BY_SIDE: [u32; 3] = [LITTLE_LESS, 96, 80];
