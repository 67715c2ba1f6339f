import { program } from './program.ts';
import { quickLoaders } from './quick-loaders.ts';

/**
 * The entry of the quick commands. The build bundles it and its imports into one file. Reading
 * twenty files takes longer than the work of these commands.
 */
export function main(argv: readonly string[]): Promise<void> {
  return program(argv, quickLoaders);
}
