/** The first bytes of every GGUF file. */
export const GGUF_MAGIC = Buffer.from('GGUF');

/** Whether the first bytes of a file are those of a GGUF file. */
export function isGguf(head: Buffer): boolean {
  return head.subarray(0, GGUF_MAGIC.length).equals(GGUF_MAGIC);
}

/** Bytes of a tensor in the file. For an unknown type this is a lower bound. */
export function tensorBytes(type: number, elements: number): number {
  return (elements * (BITS[type] ?? BITS_LEAST)) / 8;
}

/** Bits of one number of a type by its name, such as `q8_0`. */
export function bitsOf(name: string): number {
  return TYPES[name.toUpperCase() as keyof typeof TYPES]?.[1] ?? BITS_LEAST;
}

/** No type has fewer bits for one weight. */
const BITS_LEAST = 1;

/** The number that ggml gives a type, and the bits of one weight, scales included. */
const TYPES = {
  F32: [0, 32],
  F16: [1, 16],
  Q4_0: [2, 4.5],
  Q4_1: [3, 5],
  Q5_0: [6, 5.5],
  Q5_1: [7, 6],
  Q8_0: [8, 8.5],
  Q8_1: [9, 9],
  Q2_K: [10, 2.625],
  Q3_K: [11, 3.4375],
  Q4_K: [12, 4.5],
  Q5_K: [13, 5.5],
  Q6_K: [14, 6.5625],
  Q8_K: [15, 9.125],
  IQ2_XXS: [16, 2.0625],
  IQ2_XS: [17, 2.3125],
  IQ3_XXS: [18, 3.0625],
  IQ1_S: [19, 1.5625],
  IQ4_NL: [20, 4.5],
  IQ3_S: [21, 3.4375],
  IQ2_S: [22, 2.5625],
  IQ4_XS: [23, 4.25],
  I8: [24, 8],
  I16: [25, 16],
  I32: [26, 32],
  I64: [27, 64],
  F64: [28, 64],
  IQ1_M: [29, 1.75],
  BF16: [30, 16],
  TQ1_0: [34, 1.6875],
  TQ2_0: [35, 2.0625],
  MXFP4: [39, 4.25],
} as const;
const BITS: Readonly<Record<number, number>> = Object.fromEntries(Object.values(TYPES));

/** How files call their quantization, by the number in `general.file_type`. */
export const FILE_TYPES: readonly string[] = (
  'F32 F16 Q4_0 Q4_1 Q4_1_SOME_F16 Q4_2 Q4_3 Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S ' +
  'Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M ' +
  'IQ2_S IQ2_M IQ4_XS IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 Q2_0'
).split(' ');
