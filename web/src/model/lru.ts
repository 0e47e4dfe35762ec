/** Lru keeps what was used last: at most so many values, and of at most so much weight in all. A value that alone weighs more is not kept. */
export class Lru<T> {
  private readonly kept = new Map<string, { value: T; weight: number }>();
  private total = 0;

  constructor(
    private readonly most: number,
    private readonly mostWeight: number,
  ) {}

  get(key: string): T | undefined {
    const found = this.kept.get(key);
    if (!found) return undefined;
    this.kept.delete(key);
    this.kept.set(key, found);
    return found.value;
  }

  set(key: string, value: T, weight: number): void {
    this.drop(key);
    if (weight > this.mostWeight) return;
    this.kept.set(key, { value, weight });
    this.total += weight;
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.most && this.total <= this.mostWeight) break;
      this.drop(oldest);
    }
  }

  clear(): void {
    this.kept.clear();
    this.total = 0;
  }

  private drop(key: string): void {
    this.total -= this.kept.get(key)?.weight ?? 0;
    this.kept.delete(key);
  }
}
