/** A place where log lines go. A line has no newline at its end. */
export interface LogStream {
  /** Never waits and never throws. */
  write(line: string): void;
  /** Releases files and followers. */
  close(): void;
}

/** Writes each line to all streams, in their order. */
export function multistream(streams: readonly LogStream[]): LogStream {
  return {
    write(line) {
      for (const stream of streams) stream.write(line);
    },
    close() {
      for (const stream of streams) stream.close();
    },
  };
}
