import type { Fit } from '../contract/model-record.ts';
import type { Limits } from '../limits.ts';
import type { HubClient } from './hub/client.ts';
import type { Origins } from './origins.ts';

/** The environment of an attempt. */
export interface PullContext {
  hubClient: HubClient;
  limits: Limits;
  /** The models folder. */
  folder: string;
  host_boot_id: string | null;
  /** Null: nothing is kept about where a model came from. */
  origins: Origins | null;
  /** Whether a model with a file of this size fits the memory. Null: unknown. */
  fit(size_bytes: number | null): Fit | null;
  /** Free bytes on the disk of a folder. */
  freeBytes(folder: string): Promise<number>;
}
