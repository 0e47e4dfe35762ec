// Marks are written as pixels and put on the canvas at once: thousands of them cost what the picture's size costs. All
// lengths here are device pixels.

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Pixels is a picture in memory. What lies outside of it is left out; 0 is a transparent pixel. */
export class Pixels {
  /** Row by row, four bytes a pixel: red, green, blue, alpha. */
  readonly bytes: Uint8ClampedArray<ArrayBuffer>;
  readonly data: Uint32Array;
  private made: ImageData | null = null;

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.bytes = new Uint8ClampedArray(4 * width * height);
    this.data = new Uint32Array(this.bytes.buffer);
  }

  /** image is the picture for a canvas. It shares the memory. */
  image(): ImageData {
    this.made ??= new ImageData(this.bytes, this.width, this.height);
    return this.made;
  }

  /** copy repeats the row at from in the rows up to to, ever more of them at once. */
  copy(from: number, to: number): void {
    const first = clip(from, this.height) * this.width;
    const last = clip(to, this.height) * this.width;
    for (let done = this.width; first + done < last; done *= 2) {
      this.data.copyWithin(first + done, first, Math.min(first + done, last - done));
    }
  }

  /** repeat fills the rows from one up to another with one row of pixels. */
  repeat(row: Uint32Array, from: number, to: number): void {
    const first = clip(from, this.height);
    if (first >= clip(to, this.height)) return;
    this.data.set(row, first * this.width);
    this.copy(first, to);
  }

  fill(box: Box, colour: number): void {
    const left = clip(box.x, this.width);
    const right = clip(box.x + box.width, this.width);
    const bottom = clip(box.y + box.height, this.height);
    const { data, width } = this;
    for (let y = clip(box.y, this.height); y < bottom; y++) {
      const row = y * width;
      if (right - left > 16) data.fill(colour, row + left, row + right);
      else for (let at = row + left; at < row + right; at++) data[at] = colour;
    }
  }

  /** hatch draws slanting lines over a box. They hang together across boxes of one row. */
  hatch(box: Box, colour: number, ratio: number): void {
    const gap = Math.round(6 * ratio);
    const line = Math.round(1.7 * ratio);
    const right = clip(box.x + box.width, this.width);
    const bottom = clip(box.y + box.height, this.height);
    const left = clip(box.x, this.width);
    for (let y = clip(box.y, this.height); y < bottom; y++) {
      const row = y * this.width;
      // The line that reaches into the box from its left, then one after the other.
      for (let x = left - ((left + y) % gap); x < right; x += gap) {
        const end = Math.min(x + line, right);
        for (let at = Math.max(x, left); at < end; at++) this.data[row + at] = colour;
      }
    }
  }

  /** diamond stands around a point. */
  diamond(x: number, y: number, radius: number, colour: number): void {
    for (let dy = -radius; dy <= radius; dy++) {
      const half = radius - Math.abs(dy);
      this.fill({ x: x - half, y: y + dy, width: 2 * half + 1, height: 1 }, colour);
    }
  }

  /** notch cuts the upper right corner off a box, down to the ground. */
  notch(box: Box, size: number, ground: number): void {
    for (let dy = 0; dy < size; dy++) this.fill({ x: box.x + box.width - size + dy, y: box.y + dy, width: size - dy, height: 1 }, ground);
  }
}

function clip(at: number, end: number): number {
  return Math.min(Math.max(Math.round(at), 0), end);
}

/** mix is a colour on its way to another one; both are as pixels have them. */
export function mix(from: number, to: number, part: number): number {
  let out = 0;
  for (const shift of [0, 8, 16, 24]) {
    const a = (from >>> shift) & 255;
    const b = (to >>> shift) & 255;
    out |= Math.round(a + (b - a) * part) << shift;
  }
  return out >>> 0;
}

/** pixelOf is a pixel of a colour in the form #rrggbb, to which a canvas normalises opaque colours. */
export function pixelOf(colour: string): number {
  const hex = /^#([0-9a-f]{6})$/i.exec(colour)?.[1];
  if (hex === undefined) return 0xff808080;
  const rgb = parseInt(hex, 16);
  const bytes = new Uint8Array([(rgb >> 16) & 255, (rgb >> 8) & 255, rgb & 255, 255]);
  return new Uint32Array(bytes.buffer)[0] ?? 0;
}
