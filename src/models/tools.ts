import type { Limits } from '../limits.ts';
import type { Web } from './hub/client.ts';

/** What every attempt works with. */
export interface Tools {
  web: Web;
  limits: Limits;
  /** The models folder. */
  folder: string;
  host_boot_id: string | null;
  /** Free bytes on the disk of a folder. */
  freeBytes(folder: string): Promise<number>;
}
