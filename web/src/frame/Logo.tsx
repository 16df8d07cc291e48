/** The sign of Penstock: pipes that lead water to a turbine. */
export function Logo({ size }: { size: number }) {
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" fill="#0b7490" />
      <g fill="none" strokeWidth="3.2" strokeLinecap="round">
        <path d="M7 9h7.5a5.5 5.5 0 0 1 5.5 5.5v3a5.5 5.5 0 0 0 5 5.5" stroke="#fff" />
        <path d="M7 16h4a4 4 0 0 1 4 4v3" stroke="#8fe0f2" />
      </g>
    </svg>
  );
}
