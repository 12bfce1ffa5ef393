//! The macro over several branches. It names its parts by the crate's root, so no other file may take
//! anything from this one.

/// Runs several futures side by side until one ends, and then its branch, with its result: `tokio`'s
/// macro of that name, of which a replay takes the branch that was taken. It has the value of that macro, as an
/// `Ok`; the futures run as children of the current task, as those of [`select()`], which it is made of.
///
/// ```
/// # async fn example(a: impl Future<Output = u64>, b: impl Future<Output = ()>, c: impl Future<Output = bool>)
/// # -> Result<u64, relive_rpc::Halt> {
/// let sum = relive_rpc::select!("first-answer":
///     answer = a => answer + 1,
///     () = b => return Ok(0),
///     is_done = c => u64::from(is_done),
/// )?;
/// # Ok(sum) }
/// ```
#[macro_export]
macro_rules! select {
    ($name:literal: $($result:pat = $future:expr => $then:expr),+ $(,)?) => {
        $crate::select!(
            @match $crate::select!(@future $name $(, $future)+).await;
            $($result => $then),+
        )
    };
    (@future $name:literal, $last:expr) => {
        $crate::last_branch($last)
    };
    (@future $name:literal, $first:expr $(, $more:expr)+) => {
        $crate::select($name, $first, $crate::select!(@future $name $(, $more)+))
    };
    (@match $value:expr; $result:pat => $then:expr) => {
        match $value {
            ::core::result::Result::Ok($result) => ::core::result::Result::Ok($then),
            ::core::result::Result::Err(halt) => ::core::result::Result::<_, $crate::Halt>::Err(halt),
        }
    };
    (@match $value:expr; $result:pat => $then:expr $(, $more:pat => $other:expr)+) => {
        match $value {
            ::core::result::Result::Ok($crate::Either::First($result)) => ::core::result::Result::Ok($then),
            ::core::result::Result::Ok($crate::Either::Second(rest)) => {
                $crate::select!(@match rest; $($more => $other),+)
            }
            ::core::result::Result::Err(halt) => ::core::result::Result::<_, $crate::Halt>::Err(halt),
        }
    };
}
