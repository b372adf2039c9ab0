//! RFC 3339 timestamps in UTC with microseconds.

use super::decimal::fill_padded;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_SECONDS: u64 = 86_400;
const SECOND_TEXT: usize = "2026-11-30T15:47:00.".len();
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAY: u64 = 719_468;
const DAYS_IN_400_YEARS: u64 = 146_097;

/// Writes timestamps; the text of the latest second is kept, tokens share it.
#[derive(Clone, Debug)]
pub(super) struct Timestamps {
    second: u64,
    text: [u8; SECOND_TEXT],
}

impl Timestamps {
    pub(super) fn new() -> Self {
        Self {
            second: 0,
            text: second_text(0),
        }
    }

    /// Appends the time `time_ns`, nanoseconds since the Unix epoch, cut to microseconds.
    pub(super) fn push(&mut self, time_ns: u64, out: &mut Vec<u8>) {
        let second = time_ns / SECOND_NS;
        if second != self.second {
            self.second = second;
            self.text = second_text(second);
        }
        let mut fraction = *b"000000Z";
        fill_padded(time_ns % SECOND_NS / 1_000, &mut fraction[..6]);
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&fraction);
    }
}

fn second_text(second: u64) -> [u8; SECOND_TEXT] {
    let (year, month, day) = civil_date(second / DAY_SECONDS);
    let of_day = second % DAY_SECONDS;
    let mut text = *b"0000-00-00T00:00:00.";
    fill_padded(year, &mut text[0..4]);
    fill_padded(month, &mut text[5..7]);
    fill_padded(day, &mut text[8..10]);
    fill_padded(of_day / 3_600, &mut text[11..13]);
    fill_padded(of_day / 60 % 60, &mut text[14..16]);
    fill_padded(of_day % 60, &mut text[17..19]);
    text
}

/// Year, month and day of a day since 1970-01-01, by the usual count of years that begin in March.
const fn civil_date(days: u64) -> (u64, u64, u64) {
    let shifted = days + EPOCH_DAY;
    let era = shifted / DAYS_IN_400_YEARS;
    let of_era = shifted % DAYS_IN_400_YEARS;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(time_ns: u64) -> String {
        let mut out = Vec::new();
        Timestamps::new().push(time_ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_times_are_written_as_rfc_3339() {
        assert_eq!(text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(951_782_400_000_001_000), "2000-02-29T00:00:00.000001Z");
        assert_eq!(
            text(1_796_053_599_999_999_999),
            "2026-11-30T15:46:39.999999Z"
        );
        assert_eq!(
            text(4_107_542_400_000_000_000),
            "2100-03-01T00:00:00.000000Z"
        );
        assert_eq!(text(u64::MAX), "2554-07-21T23:34:33.709551Z");
    }

    #[test]
    fn the_kept_second_follows_the_time_in_both_directions() {
        let mut timestamps = Timestamps::new();
        for time_ns in [
            5 * SECOND_NS,
            5 * SECOND_NS + 1_000,
            4 * SECOND_NS,
            65 * SECOND_NS,
        ] {
            let mut out = Vec::new();
            timestamps.push(time_ns, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text(time_ns));
        }
    }

    #[test]
    fn days_follow_each_other_for_five_centuries() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..DAYS_IN_400_YEARS + 36_524 {
            assert_eq!(civil_date(days), (year, month, day));
            day += 1;
            if day > month_length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    fn month_length(year: u64, month: u64) -> u64 {
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}
