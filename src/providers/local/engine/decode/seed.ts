/**
 * The seed of one token, from the seed of the run and the position. So a resumed answer continues
 * identically. Never returns the value that means "random" in llama.cpp.
 */
export function seedAt(seed: number, position: number): number {
  let mixed = (seed ^ Math.imul(position + 1, 0x9e3779b1)) >>> 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 1;
}
