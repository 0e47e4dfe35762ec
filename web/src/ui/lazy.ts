import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Lazy is a part of the program that is fetched when it is first needed. */
export class Lazy<T> {
  private readonly state = signal<{ value: T | null; failed: boolean }>({ value: null, failed: false });
  private going = false;

  constructor(private readonly fetcher: () => Promise<T>) {}

  /** The part, or null as long as it is not there. */
  get value(): T | null {
    return this.state.value.value;
  }

  /** Whether the last try to fetch it did not succeed. */
  get failed(): boolean {
    return this.state.value.failed;
  }

  load(): void {
    if (this.going || this.state.peek().value !== null) return;
    this.going = true;
    this.fetcher()
      .then(
        (value) => (this.state.value = { value, failed: false }),
        () => (this.state.value = { value: null, failed: true }),
      )
      .finally(() => (this.going = false));
  }
}

/** useLazy fetches a part as soon as the component is shown. */
export function useLazy<T>(part: Lazy<T>): Lazy<T> {
  useEffect(() => part.load(), [part]);
  return part;
}
