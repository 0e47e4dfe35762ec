import { Loading } from "../ui/problem";

/** Skeleton stands at once where an event is going to be; that it is being read is said when that takes a while. */
export function Skeleton() {
  return (
    <div class="skeletons">
      <div aria-hidden="true">
        <div class="skeleton line" />
        <div class="skeleton block-like" />
        <div class="skeleton line" />
        <div class="skeleton block-like" />
      </div>
      <Loading what="Reading the event" />
    </div>
  );
}
